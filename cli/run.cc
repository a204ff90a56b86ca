// `rondo run`: starts a program as ranks on this host.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/launcher.h"
#include "src/error.h"

namespace rondo {
namespace {

constexpr const char* about =
    "Usage: rondo run -n N [--bind] [--no-tags] -- PROGRAM [ARGUMENTS...]\n"
    "\n"
    "Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (a free port "
    "for\n"
    "the program's own use), RONDO_MASTER_PORT and RONDO_SECRET; rank 0 gets RONDO_LISTEN_FD too, and stdin\n"
    "where that is not a terminal. OMP_NUM_THREADS, unless set, shares the CPUs among the ranks.\n"
    "--bind counts the cores that this process may use; ranks that outnumber them are left alone.\n"
    "Signals go to all ranks. When one rank fails, the others get SIGTERM and after 5 s SIGKILL, and the "
    "exit\n"
    "status is its own, or 128 + the signal that ended it; 127 if the program cannot be executed.\n"
    "\n"
    "Examples:\n"
    "  rondo run -n 4 -- ./train --epochs 3\n"
    "  rondo run -n 2 --bind -- python3 train.py\n"
    "  rondo run -n 8 --no-tags -- sh -c 'echo I am rank $RANK of $WORLD_SIZE'";

}  // namespace

void add_run_command(CLI::App& app) {
  const auto options = std::make_shared<LaunchOptions>();
  CLI::App* command = app.add_subcommand("run", "Start a program as ranks on this host");
  command->add_option("-n,--ranks", options->ranks, "Number of ranks, 1 to 4096")
      ->required()
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  command->add_flag("--bind", options->bind,
                    "Keep each rank on cores of its own, which share a cache as far as can be");
  command->add_flag_function(
      "--no-tags", [options](std::int64_t) { options->tags = false; },
      "No \"[rank] \" before each line of output");
  // Everything from the first word that is no option of ours belongs to the program.
  command->prefix_command();
  command->footer(about);
  command->callback([command, options] {
    options->command = command->remaining();
    if (options->command.empty())
      fail(ErrorKind::invalid_argument,
           "run: no program given: expected `rondo run -n N -- PROGRAM [ARGUMENTS...]`");
    finish_with(launch(*options));
  });
}

}  // namespace rondo
