// What the commands under `rondo tp` share: their options, and the ranks they run on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/local_ranks.h"
#include "models/megatron.h"
#include "models/report.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rondo {

struct TpOptions {
  std::optional<int> ranks;
  std::string algorithm;  // empty: what RONDO_ALGO says
  std::string norm = "pre", conjugates = "megatron";
  std::string device = "cpu";
  MegatronConfig sizes;  // norm and conjugates stand above
  bool json = false;

  MegatronConfig config() const;
};

// Whether the command has --seq.
enum class SequenceOption { yes, no };

// The sizes among them, for a command that can take them from a file instead.
std::vector<CLI::Option*> add_tp_options(CLI::App& command, TpOptions& options,
                                         SequenceOption sequence = SequenceOption::yes);

// Runs a command on its ranks, the ledger strict, and ends it with their exit status.
void run_tp(const TpOptions& options, const RankBody& body);

// A model of generated weights.
std::unique_ptr<MegatronModel> generated_model(Communicator& communicator, const MegatronConfig& config,
                                               std::size_t layers, Compute& compute = cpu_compute());

// "batch 4, sequence 128, hidden 512 (8 heads of 64), ffn 2048, pre-norm, megatron conjugates, 4 ranks".
// `sequences` stands in place of the one number where there are several.
std::string describe(const MegatronConfig& config, int ranks, const std::string& sequences = "");

// Prints the rows and a verdict. Throws internal where a row is not exact.
void print_rows(const std::vector<ReportRow>& rows);

// The four commands.
void add_tp_block_command(CLI::App& app);
void add_tp_layer_command(CLI::App& app);
void add_tp_train_command(CLI::App& app);
void add_tp_profile_command(CLI::App& app);

}  // namespace rondo
