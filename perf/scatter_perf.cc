// Measures rondoScatter. The size is that of all parts together.
#include "perf/bandwidth.h"
#include "perf/driver.h"

namespace {

using namespace rondo;

Sizes sizes(const Seating& place) {
  const bool root = place.rank == place.root;
  return {root ? place.before(place.ranks) : 0, place.part(), place.part(),
          Sizes::InPlace{0, root ? place.before(place.rank) : 0}};
}

std::vector<Expected> expected(const Seating& place) {
  return {{0, place.part(), place.root, place.before(place.rank)}};
}

rondoResult_t call(const CallArguments& a) {
  return a.functions.scatter(a.send, a.receive, a.count, a.type, a.root, a.comm, a.stream);
}

}  // namespace

int main(int argc, char** argv) {
  return perf_main(argc, argv, {"scatter", "Scatter", false, true, sizes, expected, call, parts_bus_factor});
}
