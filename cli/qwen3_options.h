// The options that describe a Qwen3 and its types, shared by `rondo ledger` and `rondo fsdp`.
#pragma once

#include <string>

#include "models/fsdp.h"
#include "models/qwen3_config.h"

namespace CLI {
class App;
}

namespace rondo {

// Document 1's sizes, unless options say otherwise.
struct Qwen3Choice {
  Qwen3Config config = document_1();
  std::string type = "f16";
  std::string reduce;  // the type of the parameters, unless given

  static Qwen3Config document_1();
  FsdpTypes types() const;
};

void add_size_options(CLI::App& command, Qwen3Choice& choice);
void add_type_options(CLI::App& command, Qwen3Choice& choice);

}  // namespace rondo
