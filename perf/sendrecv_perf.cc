// Measures rondoSend and rondoRecv: every rank sends to the next and receives from the one before, in a
// group. It has no form in place.
#include "perf/bandwidth.h"
#include "perf/driver.h"

namespace {

using namespace rondo;

int previous(int rank, int ranks) { return (rank + ranks - 1) % ranks; }

Sizes sizes(const Seating& place) { return {place.elements, place.elements, place.elements, std::nullopt}; }

std::vector<Expected> expected(const Seating& place) {
  return {{0, place.elements, previous(place.rank, place.ranks), 0}};
}

rondoResult_t call(const CallArguments& a) {
  rondoResult_t result = a.functions.group_start();
  if (result != rondoSuccess) return result;
  result = a.functions.send(a.send, a.count, a.type, (a.rank + 1) % a.ranks, a.comm, a.stream);
  if (result == rondoSuccess)
    result = a.functions.recv(a.receive, a.count, a.type, previous(a.rank, a.ranks), a.comm, a.stream);
  const rondoResult_t end = a.functions.group_end();
  return result != rondoSuccess ? result : end;
}

}  // namespace

int main(int argc, char** argv) {
  return perf_main(argc, argv, {"sendrecv", "Send", false, false, sizes, expected, call, whole_bus_factor});
}
