// A program that uses MPI and Rondo side by side: the sum of the ranks by both, over all ranks and over the
// odd and the even ones. Run by mpi_test.sh.
#include <cstdio>

#include "include/rondo/mpi.h"

namespace {

// Whether both give the same sum of (world rank + 1), in double precision.
bool sums_agree(MPI_Comm mpi_comm, int world_rank) {
  rondoComm_t comm = nullptr;
  if (rondoCommInitMPI(&comm, mpi_comm, nullptr) != rondoSuccess) {
    std::fprintf(stderr, "rondoCommInitMPI: %s\n", rondoGetLastError(nullptr));
    return false;
  }
  int mpi_rank = -1, mpi_size = 0, rank = -2, size = -1;
  MPI_Comm_rank(mpi_comm, &mpi_rank);
  MPI_Comm_size(mpi_comm, &mpi_size);
  rondoCommUserRank(comm, &rank);
  rondoCommCount(comm, &size);
  const double mine = world_rank + 1;
  double by_mpi = 0, by_rondo = -1;
  MPI_Allreduce(&mine, &by_mpi, 1, MPI_DOUBLE, MPI_SUM, mpi_comm);
  rondoAllReduce(&mine, &by_rondo, 1, rondoFloat64, rondoSum, comm, nullptr);
  rondoCommDestroy(comm);
  return rank == mpi_rank && size == mpi_size && by_mpi == by_rondo;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  int mine = sums_agree(MPI_COMM_WORLD, rank) && sums_agree(half, rank), all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%d ranks: %s\n", size, all ? "agree" : "do not agree");
  MPI_Comm_free(&half);
  MPI_Finalize();
  return all ? 0 : 1;
}
