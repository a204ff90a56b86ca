#include "src/job.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <limits>

#include "src/error.h"
#include "src/process.h"

namespace rondo {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int number_in(const char* name, int low, int high) {
  const std::string value = variable(name);
  int number = 0;
  const char* end = value.data() + value.size();
  const auto [stopped, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stopped != end || number < low || number > high)
    fail(ErrorKind::invalid_argument, "{}=\"{}\": expected a number from {} to {}", name, value, low, high);
  return number;
}

// The launcher's own process on this host, to which all of its ranks here go back, through wrappers too.
// Where there is none of that name, the parent.
std::string ancestor_called(const std::string& name) {
  for (std::int64_t pid = ::getppid(); pid > 1; pid = parent_of(pid))
    if (name_of_process(pid) == name) return fmt::format("{}-{}", pid, start_time_of(pid));
  return fmt::format("{}-{}", ::getppid(), start_time_of(::getppid()));
}

// The variables of one launcher. All are needed but that of the local size, without which ranks may be
// anywhere.
struct Names {
  const char *launcher, *rank, *size, *local_size;
};

std::optional<Job> job_from(const Names& names, const std::string& id) {
  if (variable(names.rank).empty() && variable(names.size).empty()) return std::nullopt;
  const int most = std::numeric_limits<int>::max();
  Job job{names.launcher, 0, number_in(names.size, 1, most), true, id};
  job.rank = number_in(names.rank, 0, job.size - 1);
  if (!variable(names.local_size).empty())
    job.one_host = number_in(names.local_size, 1, job.size) == job.size;
  return job;
}

}  // namespace

std::optional<Job> job_of_launcher() {
  if (const auto job =
          job_from({"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                   "ompi-" + variable("PMIX_NAMESPACE") + variable("PMIX_SERVER_TMPDIR")))
    return job;
  // A batch script has SLURM_PROCID as well, and is no rank: only srun's steps are.
  if (!variable("SLURM_STEP_ID").empty() && variable("SLURM_STEP_ID") != "4294967291") {
    auto job = job_from({"Slurm", "SLURM_PROCID", "SLURM_NTASKS", ""},
                        "slurm-" + variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID"));
    const std::string nodes = variable("SLURM_STEP_NUM_NODES");
    if (job) job->one_host = nodes.empty() || nodes == "1";
    if (job) return job;
  }
  return job_from({"MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
                  "hydra-" + ancestor_called("hydra_pmi_proxy"));
}

}  // namespace rondo
