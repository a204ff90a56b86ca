// The commands of the `rondo` program: one function and one file each. A command adds its options and a
// callback to the program; the callback throws what goes wrong, and calls finish_with() where the exit status
// is another than 0.
#pragma once

namespace CLI {
class App;
}

namespace rondo {

void add_run_command(CLI::App& app);
void add_info_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_ledger_command(CLI::App& app);
void add_fsdp_command(CLI::App& app);
void add_tp_command(CLI::App& app);
void add_tune_command(CLI::App& app);

}  // namespace rondo
