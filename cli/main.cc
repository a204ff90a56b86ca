// The `rondo` program.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_status.h"
#include "include/rondo/rondo.h"

namespace rondo {
namespace {

constexpr const char* examples =
    "Examples:\n"
    "  rondo ledger                              both models, every byte against the documents\n"
    "  rondo fsdp train --text README.md         train a small sharded Qwen3 on a text\n"
    "  rondo tp layer                            a tensor-parallel block, forward and backward\n"
    "  rondo run -n 4 -- ./train --epochs 3      start four ranks of a program\n"
    "  rondo explain all-reduce -n 4             see a ring turn, number by number\n"
    "  rondo explain fsdp -n 2 --layers 2        who holds and sends what in a training step\n"
    "  rondo tune                                measure this host once: thresholds and times\n"
    "  rondo info                                what this machine allows, and the settings in force\n"
    "`rondo COMMAND --help` tells more about each. Exit status: 0, 2 for bad usage, 1 for other errors.";

void add_commands(CLI::App& app) {
  add_ledger_command(app);
  add_fsdp_command(app);
  add_tp_command(app);
  add_run_command(app);
  add_info_command(app);
  add_explain_command(app);
  add_tune_command(app);
}

// The command that a user was about to give, for the hint where its help is.
std::string command_of(const CLI::App& app) {
  std::string name = "rondo";
  for (const CLI::App* command : app.get_subcommands()) name += " " + command->get_name();
  return name;
}

// The words as CLI11 takes them, from the last to the first. The first "--" of `run` only parts ours from the
// program's; CLI11 would end the command there, and take what follows for words of `rondo` again.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.front() == "run") {
    const auto mark = std::find(words.begin(), words.end(), "--");
    if (mark != words.end()) words.erase(mark);
  }
  std::reverse(words.begin(), words.end());
  return words;
}

int parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(words_of(argc, argv));
    return 0;
  } catch (const CLI::Success& wish) {  // --help or --version
    return app.exit(wish);
  } catch (const CLI::RuntimeError& end) {  // finish_with
    return end.get_exit_code();
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "rondo: {}\nTry `{} --help`.\n", error.what(), command_of(app));
    return exit_usage;
  }
}

// A full disk must not look like success.
int flush_output(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  fmt::print(stderr, "rondo: cannot write to stdout: {}\n", std::strerror(errno));
  return status != 0 ? status : exit_failure;
}

int run_program(int argc, char** argv) {
  CLI::App app{"Rondo: collective communication whose every byte is accounted for", "rondo"};
  app.set_version_flag("--version", fmt::format("rondo {}.{}.{}", RONDO_MAJOR, RONDO_MINOR, RONDO_PATCH));
  app.require_subcommand(0, 1);
  app.footer(examples);
  add_commands(app);
  if (argc < 2) {
    fmt::print(stderr, "{}", app.help());
    return exit_usage;
  }
  try {
    return flush_output(parse(app, argc, argv));
  } catch (const std::exception& error) {
    return report_error(error);
  }
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) { return rondo::run_program(argc, argv); }
