// The job in which mpirun or srun has started this process: who does not set the variables of `rondo run` and
// torchrun sets others of its own.
#pragma once

#include <optional>
#include <string>

namespace rondo {

struct Job {
  std::string launcher;  // stands in messages
  int rank;
  int size;
  bool one_host;   // all ranks are on this host, as far as the launcher tells
  std::string id;  // alike for all ranks of the job on this host, and for nobody else's
};

// What Open MPI, Slurm (in a job step), MPICH or Intel MPI tell; nothing where none of them started this
// process. Throws invalid_argument for a rank without a size, or one outside of it: nobody becomes a job of
// size 1 by accident.
std::optional<Job> job_of_launcher();

}  // namespace rondo
