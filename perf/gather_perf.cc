// Measures rondoGather. The size is that of all parts together.
#include "perf/bandwidth.h"
#include "perf/driver.h"

namespace {

using namespace rondo;

Sizes sizes(const Seating& place) {
  const bool root = place.rank == place.root;
  return {place.part(), root ? place.before(place.ranks) : 0, place.part(),
          Sizes::InPlace{root ? place.before(place.rank) : 0, 0}};
}

std::vector<Expected> expected(const Seating& place) {
  std::vector<Expected> all;
  if (place.rank != place.root) return all;
  for (int rank = 0; rank < place.ranks; ++rank) all.push_back({place.before(rank), place.part(), rank, 0});
  return all;
}

rondoResult_t call(const CallArguments& a) {
  return a.functions.gather(a.send, a.receive, a.count, a.type, a.root, a.comm, a.stream);
}

}  // namespace

int main(int argc, char** argv) {
  return perf_main(argc, argv, {"gather", "Gather", false, true, sizes, expected, call, parts_bus_factor});
}
