// Measures rondoAllReduce.
#include "perf/bandwidth.h"
#include "perf/driver.h"

namespace {

using namespace rondo;

Sizes sizes(const Seating& place) {
  return {place.elements, place.elements, place.elements, Sizes::InPlace{0, 0}};
}

std::vector<Expected> expected(const Seating& place) { return {{0, place.elements, Expected::reduction, 0}}; }

rondoResult_t call(const CallArguments& a) {
  return a.functions.all_reduce(a.send, a.receive, a.count, a.type, a.op, a.comm, a.stream);
}

}  // namespace

int main(int argc, char** argv) {
  return perf_main(argc, argv,
                   {"all_reduce", "AllReduce", true, false, sizes, expected, call, all_reduce_bus_factor});
}
