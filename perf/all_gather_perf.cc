// Measures rondoAllGather. The size is that of all parts together.
#include "perf/bandwidth.h"
#include "perf/driver.h"

namespace {

using namespace rondo;

Sizes sizes(const Seating& place) {
  const std::size_t part = place.part();
  return {part, place.before(place.ranks), part, Sizes::InPlace{place.before(place.rank), 0}};
}

std::vector<Expected> expected(const Seating& place) {
  std::vector<Expected> all;
  for (int rank = 0; rank < place.ranks; ++rank) all.push_back({place.before(rank), place.part(), rank, 0});
  return all;
}

rondoResult_t call(const CallArguments& a) {
  return a.functions.all_gather(a.send, a.receive, a.count, a.type, a.comm, a.stream);
}

}  // namespace

int main(int argc, char** argv) {
  return perf_main(argc, argv,
                   {"all_gather", "AllGather", false, false, sizes, expected, call, parts_bus_factor});
}
