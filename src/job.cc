#include "src/job.h"

#include <unistd.h>

#include <charconv>
#include <limits>

#include "src/environment.h"
#include "src/error.h"
#include "src/process.h"

namespace rondo {
namespace {

std::string variable(const char* name) { return value_of(name).value_or(""); }

int number_in(const char* name, int low, int high) {
  const std::string expected = fmt::format("a number from {} to {}", low, high);
  return static_cast<int>(whole_number(name, variable(name), low, high, expected.c_str()));
}

// The launcher's own process on this host, to which all of its ranks here go back, through wrappers too.
// Where there is none of that name, the parent.
std::string ancestor_called(const std::string& name) {
  for (std::int64_t pid = ::getppid(); pid > 1; pid = parent_of(pid))
    if (name_of_process(pid) == name) return fmt::format("{}-{}", pid, start_time_of(pid));
  return fmt::format("{}-{}", ::getppid(), start_time_of(::getppid()));
}

// The variables of one launcher. Rank and size are needed; without a local size ranks may be anywhere.
struct Names {
  const char *launcher, *rank, *size, *local_size;
};

std::optional<Job> job_from(const Names& names, const std::string& id) {
  if (variable(names.rank).empty() && variable(names.size).empty()) return std::nullopt;
  const int most = std::numeric_limits<int>::max();
  Job job{names.launcher, 0, number_in(names.size, 1, most), false, id};
  job.rank = number_in(names.rank, 0, job.size - 1);
  if (!variable(names.local_size).empty())
    job.one_host = number_in(names.local_size, 1, job.size) == job.size;
  return job;
}

std::optional<Job> job_of_open_mpi() {
  return job_from({"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                  "ompi-" + variable("PMIX_NAMESPACE") + variable("PMIX_SERVER_TMPDIR"));
}

// Hydra, which in a Slurm job is itself started by srun: its ranks have Slurm's variables too, those of the
// one proxy on their host.
std::optional<Job> job_of_hydra() {
  if (variable("MPI_LOCALNRANKS").empty() && !variable("SLURM_STEP_ID").empty()) return std::nullopt;
  return job_from({"MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
                  "hydra-" + ancestor_called("hydra_pmi_proxy"));
}

// A batch script and an interactive shell have SLURM_PROCID as well, and are no ranks: the numbers of their
// steps are the last ones there are.
bool in_slurm_step() {
  constexpr long long first_special = 0xFFFFFFF0;
  const std::string step = variable("SLURM_STEP_ID");
  long long number = 0;
  const auto [stopped, error] = std::from_chars(step.data(), step.data() + step.size(), number);
  return error == std::errc() && number < first_special;
}

std::optional<Job> job_of_slurm() {
  if (!in_slurm_step()) return std::nullopt;
  auto job = job_from({"Slurm", "SLURM_PROCID", "SLURM_NTASKS", ""},
                      "slurm-" + variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID"));
  if (job) job->one_host = variable("SLURM_STEP_NUM_NODES") == "1";
  return job;
}

}  // namespace

std::optional<Job> job_of_launcher() {
  for (const auto job_of : {job_of_open_mpi, job_of_hydra, job_of_slurm})
    if (auto job = job_of()) return job;
  return std::nullopt;
}

}  // namespace rondo
