#include "cli/qwen3_options.h"

#include <CLI/CLI.hpp>

namespace rondo {
namespace {

DataType type_from(const std::string& name) {
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16})
    if (name == name_of(type)) return type;
  fail(ErrorKind::invalid_argument, "type \"{}\": expected f32, f16 or bf16", name);
}

}  // namespace

Qwen3Config Qwen3Choice::document_1() {
  Qwen3Config config;
  config.vocab_size = 512;
  config.hidden_size = 512;
  config.intermediate_size = 1024;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 4;
  config.head_dim = 64;
  config.tie_word_embeddings = true;
  return config;
}

FsdpTypes Qwen3Choice::types() const {
  const DataType parameter = type_from(type);
  return {parameter, reduce.empty() ? parameter : type_from(reduce)};
}

void add_size_options(CLI::App& command, Qwen3Choice& choice) {
  Qwen3Config& config = choice.config;
  const char* group = "Sizes of the model";
  const auto size = [&](const char* name, std::size_t& value, const char* what) {
    command.add_option(name, value, what)->check(CLI::Range(1, 1 << 24))->capture_default_str()->group(group);
  };
  size("--layers", config.num_hidden_layers, "Decoder layers");
  size("--hidden", config.hidden_size, "Width");
  size("--intermediate", config.intermediate_size, "Width of the feed-forward part");
  size("--heads", config.num_attention_heads, "Query heads");
  size("--kv-heads", config.num_key_value_heads, "Key-value heads");
  size("--head-dim", config.head_dim, "Width of a head");
}

void add_type_options(CLI::App& command, Qwen3Choice& choice) {
  command.add_option("--type", choice.type, "Type of the parameters: f32, f16 or bf16")
      ->capture_default_str();
  command.add_option("--reduce", choice.reduce,
                     "Type in which gradients are reduced: the parameters' or f32");
}

}  // namespace rondo
