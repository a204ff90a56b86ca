// Averages gradients on four ranks, each a thread, and shows who sent how many bytes to whom.
//
//   c++ -std=c++20 ledger.cc -o ledger $(pkg-config --cflags --libs rondo)
//   ./ledger
#include <cstdio>
#include <rondo/rondo.hpp>

static void train(rondo::Communicator& comm) {
  std::vector<float> gradient(1000, static_cast<float>(comm.rank()));
  {
    const rondo::LedgerScope scope(comm, "gradients");
    comm.all_reduce(gradient, rondo::avg);
  }
  const auto matrix = comm.ledger_matrix();
  if (comm.rank() != 0) return;
  std::printf("the average is %g; bytes sent:\n", static_cast<double>(gradient[0]));
  for (int from = 0; from < comm.size(); ++from) {
    std::printf("rank %d:", from);
    for (int to = 0; to < comm.size(); ++to)
      std::printf(" %6llu",
                  static_cast<unsigned long long>(matrix[static_cast<std::size_t>(from * comm.size() + to)]));
    std::printf("\n");
  }
}

int main() {
  try {
    auto ranks = rondo::Communicator::all_in_process(4);
    std::vector<std::jthread> threads;
    for (auto& comm : ranks) threads.emplace_back([&comm] { train(comm); });
  } catch (const rondo::Exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
