#include "models/qwen3_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/sharding.h"
#include "tests/error_message.h"

namespace rondo {
namespace {

using nlohmann::json;

// As transformers 4 writes it; without settings that have defaults here.
json small_config() {
  return {{"model_type", "qwen3"},      {"vocab_size", 96},
          {"hidden_size", 48},          {"intermediate_size", 80},
          {"num_hidden_layers", 2},     {"num_attention_heads", 4},
          {"num_key_value_heads", 2},   {"head_dim", 16},
          {"hidden_act", "silu"},       {"rope_theta", 1000000.0},
          {"rope_scaling", nullptr},    {"attention_bias", false},
          {"attention_dropout", 0.0},   {"use_sliding_window", false},
          {"tie_word_embeddings", true}};
}

json with(const std::string& key, const json& value) {
  json config = small_config();
  config[key] = value;
  return config;
}

json without(const std::string& key) {
  json config = small_config();
  config.erase(key);
  return config;
}

Qwen3Config parse(const json& config) { return parse_qwen3_config(config.dump(), "config.json"); }

std::string refusal(const json& config) {
  return error_message([&] { parse(config); });
}

const ParameterSpec& find(const ParameterUnit& unit, const std::string& name) {
  for (const ParameterSpec& parameter : unit.parameters) {
    if (parameter.name == name) return parameter;
  }
  throw std::out_of_range(name);
}

TEST(Qwen3Config, ReadsEverySetting) {
  const Qwen3Config config = parse(with("rms_norm_eps", 1e-5));
  EXPECT_EQ(config.vocab_size, 96u);
  EXPECT_EQ(config.hidden_size, 48u);
  EXPECT_EQ(config.intermediate_size, 80u);
  EXPECT_EQ(config.num_hidden_layers, 2u);
  EXPECT_EQ(config.num_attention_heads, 4u);
  EXPECT_EQ(config.num_key_value_heads, 2u);
  EXPECT_EQ(config.head_dim, 16u);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rope_theta, 1e6);
  EXPECT_TRUE(config.tie_word_embeddings);
}

TEST(Qwen3Config, AbsentSettingsHaveTransformersDefaults) {
  EXPECT_EQ(parse(without("head_dim")).head_dim, 128u);
  EXPECT_EQ(parse(without("rope_theta")).rope_theta, 10000.0);
  EXPECT_EQ(parse(without("rms_norm_eps")).rms_norm_eps, 1e-6);
  EXPECT_EQ(parse(without("initializer_range")).initializer_range, 0.02);
  EXPECT_FALSE(parse(without("tie_word_embeddings")).tie_word_embeddings);
  EXPECT_EQ(parse(with("num_key_value_heads", nullptr)).num_key_value_heads, 4u);
}

TEST(Qwen3Config, ReadsTheNewerFormOfRope) {
  json config = without("rope_theta");
  config.erase("rope_scaling");
  config["rope_parameters"] = {{"rope_theta", 500000.0}, {"rope_type", "default"}};
  EXPECT_EQ(parse(config).rope_theta, 500000.0);
  config["rope_theta"] = 500000.0;
  EXPECT_EQ(parse(config).rope_theta, 500000.0);
  config["rope_theta"] = 10000.0;
  EXPECT_EQ(
      refusal(config),
      "config.json: rope_parameters: rope_theta is 500000.0, expected 10000 as rope_theta outside says");
}

TEST(Qwen3Config, RefusesRopeScalingByName) {
  EXPECT_NO_THROW(parse(with("rope_scaling", {{"rope_type", "default"}})));
  EXPECT_EQ(refusal(with("rope_scaling", {{"rope_type", "yarn"}})),
            R"(config.json: rope_scaling: rope_type is "yarn", expected "default": no other is supported)");
  EXPECT_THROW(parse(with("rope_scaling", {{"type", "linear"}, {"factor", 2.0}})), Error);
  EXPECT_EQ(
      refusal(with("rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}})),
      "config.json: rope_parameters: partial_rotary_factor is 0.5, expected null: no other is supported");
  EXPECT_THROW(parse(with("rope_parameters", 10000)), Error);
}

TEST(Qwen3Config, RefusesByNameWhatTheModelDoesNot) {
  EXPECT_EQ(refusal(with("model_type", "qwen2")),
            R"(config.json: model_type is "qwen2", expected "qwen3": no other is supported)");
  EXPECT_EQ(refusal(without("model_type")), R"(config.json: model_type is absent, expected "qwen3")");
  EXPECT_EQ(refusal(with("attention_bias", true)),
            "config.json: attention_bias is true, expected false: no other is supported");
  EXPECT_EQ(refusal(with("hidden_act", "gelu")),
            R"(config.json: hidden_act is "gelu", expected "silu": no other is supported)");
  EXPECT_EQ(refusal(with("attention_dropout", 0.1)),
            "config.json: attention_dropout is 0.1, expected 0.0: no other is supported");
  EXPECT_EQ(refusal(with("use_sliding_window", true)),
            "config.json: use_sliding_window is true, expected false: no other is supported");
  EXPECT_THROW(parse(with("layer_types", {"full_attention", "sliding_attention"})), Error);
  EXPECT_NO_THROW(parse(with("layer_types", {"full_attention", "full_attention"})));
  EXPECT_THROW(parse(with("quantization_config", {{"quant_method", "fp8"}})), Error);
  EXPECT_NO_THROW(parse(with("attention_dropout", 0)));
}

TEST(Qwen3Config, RefusesSizesThatAreNone) {
  EXPECT_EQ(refusal(without("hidden_size")),
            "config.json: hidden_size is absent, expected a positive integer");
  EXPECT_EQ(refusal(with("hidden_size", 0)), "config.json: hidden_size is 0, expected a positive integer");
  EXPECT_EQ(refusal(with("hidden_size", -48)),
            "config.json: hidden_size is -48, expected a positive integer");
  EXPECT_EQ(refusal(with("hidden_size", 48.0)),
            "config.json: hidden_size is 48.0, expected a positive integer");
  EXPECT_EQ(refusal(with("vocab_size", "96")),
            R"(config.json: vocab_size is "96", expected a positive integer)");
  EXPECT_THROW(parse(with("head_dim", nullptr)), Error);
  EXPECT_THROW(parse(without("num_key_value_heads")), Error);
}

TEST(Qwen3Config, RefusesSizesThatDoNotFitTogether) {
  EXPECT_EQ(refusal(with("num_key_value_heads", 3)),
            "config.json: num_attention_heads 4 is not a multiple of num_key_value_heads 3");
  EXPECT_THROW(parse(with("num_key_value_heads", 8)), Error);
  EXPECT_EQ(refusal(with("head_dim", 15)),
            "config.json: head_dim is 15, expected an even number: RoPE turns pairs");
}

TEST(Qwen3Config, RefusesSizesThatOverflow) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"}) {
    EXPECT_NE(refusal(with(key, std::size_t{1} << 60)).find("cannot be addressed"), std::string::npos) << key;
  }
  EXPECT_THROW(parse(with("num_attention_heads", std::size_t{1} << 62)), Error);
  EXPECT_THROW(parse(with("head_dim", std::size_t{1} << 62)), Error);
}

TEST(Qwen3Config, RefusesNumbersThatAreNotPositive) {
  EXPECT_EQ(refusal(with("rms_norm_eps", 0)), "config.json: rms_norm_eps is 0, expected a positive number");
  EXPECT_EQ(refusal(with("rope_theta", -1.5)), "config.json: rope_theta is -1.5, expected a positive number");
  EXPECT_THROW(parse(with("rope_theta", "10000")), Error);
  EXPECT_THROW(parse(with("initializer_range", -1)), Error);
  EXPECT_THROW(parse(with("tie_word_embeddings", 1)), Error);
}

TEST(Qwen3Config, RefusesTextThatIsNoConfiguration) {
  EXPECT_EQ(refusal(json::array()), "config.json: expected a JSON object");
  EXPECT_THROW(parse_qwen3_config("", "config.json"), Error);
  EXPECT_THROW(parse_qwen3_config(R"({"model_type": "qwen3")", "config.json"), Error);
  EXPECT_EQ(error_message([] { parse_qwen3_config(R"({"head_dim": 16, "head_dim": 32})", "config.json"); }),
            "config.json: the key 'head_dim' stands twice in one JSON object");
  EXPECT_THROW(parse_qwen3_config(std::string(1000, '['), "config.json"), Error);
}

TEST(Qwen3Parameters, HeadDimIsNotDerivedFromHiddenSize) {
  const ParameterUnit layer = qwen3_layer_unit(parse(small_config()), 1);
  EXPECT_EQ(find(layer, "model.layers.1.self_attn.q_proj.weight").shape, (Shape{64, 48}));
  EXPECT_EQ(find(layer, "model.layers.1.self_attn.k_proj.weight").shape, (Shape{32, 48}));
  EXPECT_EQ(find(layer, "model.layers.1.self_attn.v_proj.weight").shape, (Shape{32, 48}));
  EXPECT_EQ(find(layer, "model.layers.1.self_attn.o_proj.weight").shape, (Shape{48, 64}));
}

TEST(Qwen3Parameters, ElevenInEachLayerInTheOrderOfTheirUse) {
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : qwen3_layer_unit(parse(small_config()), 0).parameters) {
    names.push_back(parameter.name);
  }
  const std::vector<std::string> expected = {
      "model.layers.0.input_layernorm.weight",  "model.layers.0.self_attn.q_proj.weight",
      "model.layers.0.self_attn.k_proj.weight", "model.layers.0.self_attn.v_proj.weight",
      "model.layers.0.self_attn.q_norm.weight", "model.layers.0.self_attn.k_norm.weight",
      "model.layers.0.self_attn.o_proj.weight", "model.layers.0.post_attention_layernorm.weight",
      "model.layers.0.mlp.gate_proj.weight",    "model.layers.0.mlp.up_proj.weight",
      "model.layers.0.mlp.down_proj.weight",
  };
  EXPECT_EQ(names, expected);
}

TEST(Qwen3Parameters, HeadIsInTheRootUnitUnlessTied) {
  const ParameterUnit tied = qwen3_root_unit(parse(small_config()));
  EXPECT_EQ(tied.parameters.size(), 2u);
  EXPECT_EQ(find(tied, "model.embed_tokens.weight").shape, (Shape{96, 48}));
  EXPECT_EQ(find(tied, "model.norm.weight").shape, (Shape{48}));
  const ParameterUnit untied = qwen3_root_unit(parse(with("tie_word_embeddings", false)));
  EXPECT_EQ(untied.parameters.back().name, "lm_head.weight");
  EXPECT_EQ(untied.parameters.back().shape, (Shape{96, 48}));
}

TEST(Qwen3Parameters, UnitsAreTheRootAndTheLayers) {
  std::vector<std::string> names;
  for (const ParameterUnit& unit : qwen3_units(parse(small_config()))) names.push_back(unit.name);
  EXPECT_EQ(names, (std::vector<std::string>{"root", "model.layers.0", "model.layers.1"}));
}

// The layer of document 1: docs/ledger.md.
TEST(Qwen3Parameters, DocumentedLayerHasTheDocumentedElements) {
  Qwen3Config config;
  config.vocab_size = 1;
  config.hidden_size = 512;
  config.intermediate_size = 1024;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 4;
  config.head_dim = 64;
  require_valid(config, "document 1");
  const ParameterUnit layer = qwen3_layer_unit(config, 0);
  EXPECT_EQ(element_count(layer), 2'360'448u);
  std::size_t shard = 0;
  for (const auto& [name, shape] : layer.parameters) shard += *element_count(shard_shape(name, shape, 0, 4));
  EXPECT_EQ(shard, 590'112u);
  const auto shard_of = [&](const std::string& name) {
    return shard_shape(name, find(layer, "model.layers.0." + name + ".weight").shape, 3, 4);
  };
  EXPECT_EQ(shard_of("self_attn.q_norm"), (Shape{16}));
  EXPECT_EQ(shard_of("self_attn.k_proj"), (Shape{64, 512}));
  EXPECT_EQ(shard_of("mlp.down_proj"), (Shape{128, 1024}));
}

}  // namespace
}  // namespace rondo
