// Measures rondoReduceScatter. The size is that of all parts together.
#include "perf/bandwidth.h"
#include "perf/driver.h"

namespace {

using namespace rondo;

Sizes sizes(const Seating& place) {
  const std::size_t part = place.part();
  return {place.before(place.ranks), part, part, Sizes::InPlace{0, place.before(place.rank)}};
}

std::vector<Expected> expected(const Seating& place) {
  return {{0, place.part(), Expected::reduction, place.before(place.rank)}};
}

rondoResult_t call(const CallArguments& a) {
  return a.functions.reduce_scatter(a.send, a.receive, a.count, a.type, a.op, a.comm, a.stream);
}

}  // namespace

int main(int argc, char** argv) {
  return perf_main(argc, argv,
                   {"reduce_scatter", "ReduceScatter", true, false, sizes, expected, call, parts_bus_factor});
}
