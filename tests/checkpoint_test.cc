#include "models/checkpoint.h"

#include <gtest/gtest.h>

#include "models/safetensors_writer.h"
#include "tests/error_message.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

constexpr std::string_view config_text =
    R"({"model_type": "qwen3", "vocab_size": 96, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16})";

void write_tensor(const std::filesystem::path& path, const std::string& name, DataType type) {
  const std::vector<std::byte> data(6 * size_of(type));
  write_safetensors(path, std::vector<NamedTensor>{{{name, type, {2, 3}}, data}});
}

// A folder with config.json, a bf16 tensor "a" in one file, an f16 tensor "b" and an f32 tensor "c" in
// others.
class ShardedCheckpoint : public testing::Test {
 protected:
  ShardedCheckpoint() {
    folder_.write("config.json", config_text);
    write_tensor(folder_ / "model-1.safetensors", "a", DataType::bf16);
    write_tensor(folder_ / "model-2.safetensors", "b", DataType::f16);
    write_tensor(folder_ / "model-3.safetensors", "c", DataType::f32);
    write_index(R"({"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-3.safetensors"})");
  }

  void write_index(std::string_view weight_map) {
    folder_.write("model.safetensors.index.json",
                  fmt::format(R"({{"metadata": {{}}, "weight_map": {}}})", weight_map));
  }

  std::string refusal() const {
    return error_message([&] { Checkpoint checkpoint(folder_.path()); });
  }

  std::string path(std::string_view name) const { return (folder_ / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(ShardedCheckpoint, FindsTensorsInAllFilesWithTheirOwnTypes) {
  const Checkpoint checkpoint(folder_.path());
  EXPECT_EQ(checkpoint.config().head_dim, 16u);
  EXPECT_EQ(checkpoint.tensors().size(), 3u);
  EXPECT_EQ(checkpoint.at("a", {2, 3}).type, DataType::bf16);
  EXPECT_EQ(checkpoint.at("b", {2, 3}).type, DataType::f16);
  EXPECT_EQ(checkpoint.at("c", {2, 3}).type, DataType::f32);
}

TEST_F(ShardedCheckpoint, TensorsStayValidWhenItIsMoved) {
  Checkpoint checkpoint(folder_.path());
  const TensorInfo& tensor = checkpoint.at("a", {2, 3});
  const Checkpoint moved = std::move(checkpoint);
  EXPECT_EQ(&moved.at("a", {2, 3}), &tensor);
  EXPECT_EQ(tensor.bytes[0], std::byte{0});
}

TEST_F(ShardedCheckpoint, RefusesAnotherShape) {
  const Checkpoint checkpoint(folder_.path());
  EXPECT_EQ(error_message([&] {
              checkpoint.at("b", {3, 2});
            }),
            path("model-2.safetensors") + ": tensor 'b' is 2x3, expected 3x2");
}

TEST_F(ShardedCheckpoint, NamesAnEntryThatIsMissing) {
  write_index(R"({"a": "model-1.safetensors", "c": "model-3.safetensors"})");
  const Checkpoint checkpoint(folder_.path());
  EXPECT_EQ(error_message([&] {
              checkpoint.at("b", {2, 3});
            }),
            path("model.safetensors.index.json") + ": lists no tensor 'b'");
}

TEST_F(ShardedCheckpoint, NamesAFileThatIsMissing) {
  std::filesystem::remove(folder_ / "model-2.safetensors");
  EXPECT_EQ(refusal(), path("model-2.safetensors") + ": cannot open: No such file or directory");
}

TEST_F(ShardedCheckpoint, NamesAFileThatLacksItsTensor) {
  write_index(R"({"a": "model-1.safetensors", "b": "model-3.safetensors"})");
  EXPECT_EQ(refusal(), path("model.safetensors.index.json") +
                           ": weight_map says that model-3.safetensors has tensor 'b', but it has not");
}

TEST_F(ShardedCheckpoint, RefusesFilesInOtherFolders) {
  for (const std::string name : {"../model-1.safetensors", "/model-1.safetensors", "sub/x", "..", ".", ""}) {
    write_index(fmt::format(R"({{"a": "{}"}})", name));
    EXPECT_EQ(refusal(), fmt::format("{}: weight_map names the file '{}', expected a name without a folder",
                                     path("model.safetensors.index.json"), name));
  }
}

TEST_F(ShardedCheckpoint, RefusesAnIndexThatIsNone) {
  for (const std::string_view map : {"null", "[]", R"({"a": 1})"}) {
    write_index(map);
    EXPECT_NE(refusal().find("weight_map"), std::string::npos) << map;
  }
  folder_.write("model.safetensors.index.json", "[]");
  EXPECT_EQ(refusal(), path("model.safetensors.index.json") + ": weight_map is absent or no JSON object");
}

TEST_F(ShardedCheckpoint, PrefersTheSingleFileAsTransformersDoes) {
  write_tensor(folder_ / "model.safetensors", "d", DataType::f32);
  const Checkpoint checkpoint(folder_.path());
  EXPECT_EQ(checkpoint.tensors().size(), 1u);
  EXPECT_EQ(error_message([&] {
              checkpoint.at("a", {2, 3});
            }),
            path("model.safetensors") + ": lists no tensor 'a'");
}

TEST(Checkpoint, NamesWhatAFolderLacks) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_message([&] { Checkpoint checkpoint(folder.path()); }),
            (folder / "config.json").string() + ": cannot open: No such file or directory");
  folder.write("config.json", config_text);
  EXPECT_EQ(error_message([&] { Checkpoint checkpoint(folder.path()); }),
            folder.path().string() + ": has neither model.safetensors nor model.safetensors.index.json");
}

// Checkpoints that transformers' save_pretrained wrote: see tests/golden.
struct Golden {
  const char* folder;
  DataType type;
  double rope_theta;  // written in the older form and in the newer
};

class GoldenCheckpoint : public testing::TestWithParam<Golden> {};

TEST_P(GoldenCheckpoint, HasEveryParameterOfItsConfiguration) {
  const auto [folder, type, rope_theta] = GetParam();
  const Checkpoint checkpoint(std::filesystem::path(RONDO_GOLDEN_DIR) / folder);
  EXPECT_EQ(checkpoint.config().rope_theta, rope_theta);
  std::size_t parameters = 0;
  for (const ParameterUnit& unit : qwen3_units(checkpoint.config())) {
    for (const auto& [name, shape] : unit.parameters)
      EXPECT_EQ(checkpoint.at(name, shape).type, type) << name;
    parameters += unit.parameters.size();
  }
  EXPECT_EQ(checkpoint.tensors().size(), parameters);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenCheckpoint,
                         testing::Values(Golden{"checkpoint_single", DataType::f32, 2000},
                                         Golden{"checkpoint_sharded", DataType::bf16, 1e6}),
                         [](const auto& info) { return std::string(info.param.folder); });

}  // namespace
}  // namespace rondo
