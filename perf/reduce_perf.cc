// Measures rondoReduce.
#include "perf/bandwidth.h"
#include "perf/driver.h"

namespace {

using namespace rondo;

Sizes sizes(const Seating& place) {
  return {place.elements, place.elements, place.elements, Sizes::InPlace{0, 0}};
}

std::vector<Expected> expected(const Seating& place) {
  if (place.rank != place.root) return {};
  return {{0, place.elements, Expected::reduction, 0}};
}

rondoResult_t call(const CallArguments& a) {
  return a.functions.reduce(a.send, a.receive, a.count, a.type, a.op, a.root, a.comm, a.stream);
}

}  // namespace

int main(int argc, char** argv) {
  return perf_main(argc, argv, {"reduce", "Reduce", true, true, sizes, expected, call, whole_bus_factor});
}
