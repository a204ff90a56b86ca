// The configuration of a Qwen3 decoder, and the parameters that follow from it.
// Source: transformers, models/qwen3/configuration_qwen3.py and modeling_qwen3.py, whose names these are.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/shape.h"

namespace rondo {

struct Qwen3Config {
  std::size_t vocab_size = 0;
  std::size_t hidden_size = 0;
  std::size_t intermediate_size = 0;  // of the feed-forward network
  std::size_t num_hidden_layers = 0;
  std::size_t num_attention_heads = 0;
  std::size_t num_key_value_heads = 0;  // each serves as many query heads as any other
  std::size_t head_dim = 128;           // its own setting: not hidden_size / num_attention_heads
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  double initializer_range = 0.02;   // standard deviation of fresh weights
  bool tie_word_embeddings = false;  // the output head is the embedding

  friend bool operator==(const Qwen3Config&, const Qwen3Config&) = default;
};

// Throws Error (invalid_argument), which begins with `source` and names field and value, unless sizes are
// positive, head_dim is even, the query heads are a multiple of the key-value heads, the real numbers are
// finite and positive (initializer_range may be 0), and the bytes of all parameters as f64 can be counted.
void require_valid(const Qwen3Config& config, std::string_view source);

// Reads the text of a config.json and checks it as require_valid does. Absent settings have transformers'
// defaults; sizes other than head_dim must be there. RoPE's base is read from `rope_parameters` or from the
// older `rope_theta` and `rope_scaling`. Throws Error (invalid_argument) for text that is not such a
// configuration and for settings that the model layer does not do: another model_type than "qwen3", another
// hidden_act than "silu", attention_bias, attention_dropout, sliding windows, RoPE scaling, quantization.
Qwen3Config parse_qwen3_config(std::string_view text, const std::string& source);

// Reads a file; throws as parse_qwen3_config does, and Error (system) where the file cannot be read.
Qwen3Config load_qwen3_config(const std::filesystem::path& path);

struct ParameterSpec {
  std::string name;  // transformers' name, such as "model.layers.0.self_attn.q_proj.weight"
  Shape shape;       // a matrix has [outputs, inputs]
};

// Parameters that FSDP2 gathers and scatters together.
struct ParameterUnit {
  std::string name;  // "root", or transformers' name of the layer: "model.layers.0"
  std::vector<ParameterSpec> parameters;
};

// The embedding, the final norm and, unless it is tied to the embedding, the output head.
ParameterUnit qwen3_root_unit(const Qwen3Config& config);

// A layer's eleven parameters, in the order of their use.
ParameterUnit qwen3_layer_unit(const Qwen3Config& config, std::size_t layer);

// All units, in the order in which a forward pass gathers them: the root, then the layers.
std::vector<ParameterUnit> qwen3_units(const Qwen3Config& config);

// The elements of a unit's parameters.
std::size_t element_count(const ParameterUnit& unit);

}  // namespace rondo
