// Measures rondoAlltoAll. The size is that of a rank's whole buffer. It has no form in place.
#include "perf/bandwidth.h"
#include "perf/driver.h"

namespace {

using namespace rondo;

Sizes sizes(const Seating& place) {
  const std::size_t whole = place.before(place.ranks);
  return {whole, whole, place.part(), std::nullopt};
}

std::vector<Expected> expected(const Seating& place) {
  std::vector<Expected> all;
  for (int rank = 0; rank < place.ranks; ++rank)
    all.push_back({place.before(rank), place.part(), rank, place.before(place.rank)});
  return all;
}

rondoResult_t call(const CallArguments& a) {
  return a.functions.all_to_all(a.send, a.receive, a.count, a.type, a.comm, a.stream);
}

}  // namespace

int main(int argc, char** argv) {
  return perf_main(argc, argv,
                   {"alltoall", "AlltoAll", false, false, sizes, expected, call, parts_bus_factor});
}
