/* Rondo for programs that use MPI: a communicator of the ranks of an MPI_Comm. All of it stands in this
 * header, which the program compiles against its own MPI; librondo knows nothing of MPI, and works with any.
 *
 *   MPI_Init(&argc, &argv);
 *   rondoComm_t comm;
 *   rondoCommInitMPI(&comm, MPI_COMM_WORLD, NULL);
 *
 * Ranks on several hosts: set RONDO_COMM_ID, as for rondoGetUniqueId, which this calls on rank 0.
 * A program started by mpirun that does not use MPI itself calls rondoCommInitEnv. */
#ifndef RONDO_MPI_H_
#define RONDO_MPI_H_

#include <mpi.h>
#include <rondo/rondo.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Collective over mpi_comm, an intracommunicator: rank r of it is rank r of *comm. MPI must be initialized,
 * and is used in this call alone. config may be null. Fails on every rank if it fails on one;
 * rondoSystemError without a text where MPI itself failed. Ranks on several hosts without RONDO_COMM_ID:
 * rondoInvalidUsage at once, with a text on those that are not on rank 0's host. */
static inline rondoResult_t rondoCommInitMPI(rondoComm_t* comm, MPI_Comm mpi_comm,
                                             const rondoConfig_t* config) {
  struct {
    rondoUniqueId id;
    int result;
  } offer = {{{0}}, rondoSuccess};
  int rank = 0, size = 0, mine = 0, worst = 0;
  if (MPI_Comm_rank(mpi_comm, &rank) != MPI_SUCCESS || MPI_Comm_size(mpi_comm, &size) != MPI_SUCCESS)
    return rondoSystemError;
  if (rank == 0) offer.result = (int)rondoGetUniqueId(&offer.id);
  if (MPI_Bcast(&offer, (int)sizeof offer, MPI_BYTE, 0, mpi_comm) != MPI_SUCCESS) return rondoSystemError;
  if (offer.result != (int)rondoSuccess) return (rondoResult_t)offer.result;
  mine = (int)rondoCheckUniqueId(offer.id);
  if (MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, mpi_comm) != MPI_SUCCESS) return rondoSystemError;
  if (worst != (int)rondoSuccess) return (rondoResult_t)worst;
  return rondoCommInitRankConfig(comm, size, offer.id, rank, config);
}

#ifdef __cplusplus
}
#endif

#endif /* RONDO_MPI_H_ */
