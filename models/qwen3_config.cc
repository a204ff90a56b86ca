#include "models/qwen3_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "models/json.h"
#include "models/mapped_file.h"
#include "src/error.h"

namespace rondo {
namespace {

using nlohmann::json;

// ---- Reading ----

// The settings in one JSON object.
class Settings {
 public:
  Settings(const json& object, std::string label) : object_(object), label_(std::move(label)) {
    if (!object.is_object()) fail(ErrorKind::invalid_argument, "{}: expected a JSON object", label_);
  }

  const json& object() const { return object_; }
  const std::string& label() const { return label_; }

  // Null where the setting is absent or null: transformers then uses its default.
  const json* find(const std::string& key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  std::size_t size(const std::string& key) const {
    const json* const value = find(key);
    if (value == nullptr || !value->is_number_unsigned()) refuse(key, "a positive integer");
    return value->get<std::size_t>();
  }

  double real(const std::string& key, double fallback) const {
    const json* const value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_number()) refuse(key, "a number");
    return value->get<double>();
  }

  bool flag(const std::string& key, bool fallback) const {
    const json* const value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) refuse(key, "true or false");
    return value->get<bool>();
  }

  // Throws unless the setting has its default or the one value that the model layer supports.
  void require_supported(const std::string& key, const json& supported) const {
    const json* const value = find(key);
    if (value != nullptr && *value != supported)
      refuse(key, fmt::format("{}: no other is supported", supported.dump()));
  }

  // Throws an error that names the setting, its value and what is expected.
  [[noreturn]] void refuse(const std::string& key, std::string_view expected) const {
    const auto found = object_.find(key);
    const std::string value = found == object_.end() ? "absent" : found->dump();
    fail(ErrorKind::invalid_argument, "{}: {} is {:.100}, expected {}", label_, key, value, expected);
  }

 private:
  const json& object_;
  std::string label_;
};

void require_supported_layer_types(const Settings& settings) {
  const json* const types = settings.find("layer_types");
  if (types == nullptr) return;
  const auto is_full = [](const json& type) { return type == "full_attention"; };
  if (!types->is_array() || !std::ranges::all_of(*types, is_full)) {
    settings.refuse("layer_types", R"(a list of "full_attention": no other is supported)");
  }
}

void require_supported_model(const Settings& settings) {
  if (settings.find("model_type") == nullptr) settings.refuse("model_type", R"("qwen3")");
  settings.require_supported("model_type", "qwen3");
  settings.require_supported("hidden_act", "silu");
  settings.require_supported("attention_bias", false);
  settings.require_supported("attention_dropout", 0.0);
  settings.require_supported("use_sliding_window", false);
  settings.require_supported("quantization_config", nullptr);
  require_supported_layer_types(settings);
}

void require_plain_rope(const Settings& rope) {
  constexpr std::array known = {"rope_theta", "rope_type", "type"};
  for (const auto& [key, value] : rope.object().items()) {
    if (std::ranges::find(known, key) == known.end()) rope.require_supported(key, nullptr);
  }
  rope.require_supported("rope_type", "default");
  rope.require_supported("type", "default");
}

// transformers 5 writes rope_parameters; before, it wrote rope_theta, and rope_scaling where RoPE is not
// plain.
double read_rope_theta(const Settings& settings) {
  double theta = settings.real("rope_theta", Qwen3Config().rope_theta);
  for (const std::string key : {"rope_scaling", "rope_parameters"}) {
    const json* const object = settings.find(key);
    if (object == nullptr) continue;
    const Settings rope(*object, fmt::format("{}: {}", settings.label(), key));
    require_plain_rope(rope);
    const double inner = rope.real("rope_theta", theta);
    if (settings.find("rope_theta") != nullptr && inner != theta) {
      rope.refuse("rope_theta", fmt::format("{} as rope_theta outside says", theta));
    }
    theta = inner;
  }
  return theta;
}

// ---- Checking ----

// The elements of all parameters, in a type that does not wrap: the sizes are not to be believed yet.
double approximate_elements(const Qwen3Config& config) {
  const auto real = [](std::size_t size) { return static_cast<double>(size); };
  const double hidden = real(config.hidden_size);
  const double heads = real(config.num_attention_heads) + real(config.num_key_value_heads);
  const double head_dim = real(config.head_dim);
  const double attention = 2 * heads * head_dim * hidden + 2 * head_dim;
  const double feed_forward = 3 * real(config.intermediate_size) * hidden;
  const double layers = real(config.num_hidden_layers) * (attention + feed_forward + 2 * hidden);
  return layers + hidden + real(config.vocab_size) * hidden * (config.tie_word_embeddings ? 1 : 2);
}

void require_positive_sizes(const Qwen3Config& config, std::string_view source) {
  const std::array sizes = {
      std::pair("vocab_size", config.vocab_size),
      std::pair("hidden_size", config.hidden_size),
      std::pair("intermediate_size", config.intermediate_size),
      std::pair("num_hidden_layers", config.num_hidden_layers),
      std::pair("num_attention_heads", config.num_attention_heads),
      std::pair("num_key_value_heads", config.num_key_value_heads),
      std::pair("head_dim", config.head_dim),
  };
  for (const auto& [name, size] : sizes) {
    if (size == 0)
      fail(ErrorKind::invalid_argument, "{}: {} is 0, expected a positive integer", source, name);
  }
}

void require_countable(const Qwen3Config& config, std::string_view source) {
  const double bytes = approximate_elements(config) * sizeof(double);
  if (bytes >= static_cast<double>(std::numeric_limits<std::ptrdiff_t>::max())) {
    fail(ErrorKind::invalid_argument,
         "{}: the sizes make {:.2g} bytes of parameters, which cannot be addressed: vocab_size {}, "
         "hidden_size {}, "
         "intermediate_size {}, num_hidden_layers {}, num_attention_heads {}, num_key_value_heads {}, "
         "head_dim {}",
         source, bytes, config.vocab_size, config.hidden_size, config.intermediate_size,
         config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads, config.head_dim);
  }
}

void require_valid_reals(const Qwen3Config& config, std::string_view source) {
  const std::array reals = {
      std::pair("rms_norm_eps", config.rms_norm_eps),
      std::pair("rope_theta", config.rope_theta),
  };
  for (const auto& [name, value] : reals) {
    if (!std::isfinite(value) || value <= 0) {
      fail(ErrorKind::invalid_argument, "{}: {} is {}, expected a positive number", source, name, value);
    }
  }
  if (!std::isfinite(config.initializer_range) || config.initializer_range < 0) {
    fail(ErrorKind::invalid_argument, "{}: initializer_range is {}, expected a number of 0 or more", source,
         config.initializer_range);
  }
}

}  // namespace

void require_valid(const Qwen3Config& config, std::string_view source) {
  require_positive_sizes(config, source);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    fail(ErrorKind::invalid_argument,
         "{}: num_attention_heads {} is not a multiple of num_key_value_heads {}", source,
         config.num_attention_heads, config.num_key_value_heads);
  }
  if (config.head_dim % 2 != 0) {
    fail(ErrorKind::invalid_argument, "{}: head_dim is {}, expected an even number: RoPE turns pairs", source,
         config.head_dim);
  }
  require_countable(config, source);
  require_valid_reals(config, source);
}

Qwen3Config parse_qwen3_config(std::string_view text, const std::string& source) {
  const json object = parse_json(text, source);
  const Settings settings(object, source);
  require_supported_model(settings);
  Qwen3Config config;
  config.vocab_size = settings.size("vocab_size");
  config.hidden_size = settings.size("hidden_size");
  config.intermediate_size = settings.size("intermediate_size");
  config.num_hidden_layers = settings.size("num_hidden_layers");
  config.num_attention_heads = settings.size("num_attention_heads");
  // Null is how transformers says that every query head has a key-value head of its own.
  const bool own_heads = object.contains("num_key_value_heads") && object["num_key_value_heads"].is_null();
  config.num_key_value_heads = own_heads ? config.num_attention_heads : settings.size("num_key_value_heads");
  if (object.contains("head_dim")) config.head_dim = settings.size("head_dim");
  config.rms_norm_eps = settings.real("rms_norm_eps", config.rms_norm_eps);
  config.rope_theta = read_rope_theta(settings);
  config.initializer_range = settings.real("initializer_range", config.initializer_range);
  config.tie_word_embeddings = settings.flag("tie_word_embeddings", config.tie_word_embeddings);
  require_valid(config, source);
  return config;
}

Qwen3Config load_qwen3_config(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_qwen3_config(file.text(), path.string());
}

// ---- Parameters ----

ParameterUnit qwen3_root_unit(const Qwen3Config& config) {
  const Shape embedding = {config.vocab_size, config.hidden_size};
  ParameterUnit unit{"root",
                     {{"model.embed_tokens.weight", embedding}, {"model.norm.weight", {config.hidden_size}}}};
  if (!config.tie_word_embeddings) unit.parameters.push_back({"lm_head.weight", embedding});
  return unit;
}

ParameterUnit qwen3_layer_unit(const Qwen3Config& config, std::size_t layer) {
  const std::size_t hidden = config.hidden_size;
  const std::size_t head = config.head_dim;
  const std::size_t query = config.num_attention_heads * head;
  const std::size_t key_value = config.num_key_value_heads * head;
  const std::size_t inner = config.intermediate_size;
  ParameterUnit unit{fmt::format("model.layers.{}", layer),
                     {
                         {"input_layernorm", {hidden}},
                         {"self_attn.q_proj", {query, hidden}},
                         {"self_attn.k_proj", {key_value, hidden}},
                         {"self_attn.v_proj", {key_value, hidden}},
                         {"self_attn.q_norm", {head}},
                         {"self_attn.k_norm", {head}},
                         {"self_attn.o_proj", {hidden, query}},
                         {"post_attention_layernorm", {hidden}},
                         {"mlp.gate_proj", {inner, hidden}},
                         {"mlp.up_proj", {inner, hidden}},
                         {"mlp.down_proj", {hidden, inner}},
                     }};
  for (ParameterSpec& parameter : unit.parameters) {
    parameter.name = fmt::format("{}.{}.weight", unit.name, parameter.name);
  }
  return unit;
}

std::vector<ParameterUnit> qwen3_units(const Qwen3Config& config) {
  std::vector<ParameterUnit> units = {qwen3_root_unit(config)};
  for (std::size_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    units.push_back(qwen3_layer_unit(config, layer));
  }
  return units;
}

std::size_t element_count(const ParameterUnit& unit) {
  std::size_t count = 0;
  for (const ParameterSpec& parameter : unit.parameters) count += *element_count(parameter.shape);
  return count;
}

}  // namespace rondo
