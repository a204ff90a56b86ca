// `rondo ledger` and `rondo fsdp` as a user meets them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/safetensors_writer.h"
#include "tests/golden.h"
#include "tests/program.h"

namespace rondo::test {
namespace {

using nlohmann::json;

json json_of(const std::string& arguments) {
  const Outcome outcome = run_program(arguments + " --json");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

// Says what is wrong, in one line, with this exit status.
void expect_refused(const std::string& arguments, int status, const std::string& part) {
  const Outcome outcome = run_program(arguments);
  EXPECT_EQ(outcome.status, status) << arguments << ": " << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << arguments << ": " << outcome.err;
}

TEST(LedgerCommand, HasTheDocumentsFigures) {
  const json report = json_of("ledger --ranks 4 --layers 3");
  EXPECT_EQ(report["rows"].size(), 31u);
  std::size_t steps = 0;
  for (const json& row : report["rows"]) {
    EXPECT_EQ(row["difference"], 0) << row["stage"];
    EXPECT_EQ(row["expected"], row["measured"]) << row["stage"];
    const std::string stage = row["stage"];
    if (!stage.starts_with("model.layers.")) continue;
    const bool whole = stage.ends_with("step");
    steps += whole;
    EXPECT_EQ(row["measured"], json(std::vector<int>(4, whole ? 10'622'016 : 3'540'672))) << stage;
    EXPECT_EQ(row["documented"], whole ? 10'600'000 : 3'540'000) << stage;
  }
  EXPECT_EQ(steps, 3u);
  EXPECT_EQ(report["matrix"], report["expected_matrix"]);
}

TEST(LedgerCommand, IsExactForUnevenRanksTypesAndAlgorithms) {
  for (const char* options : {"--ranks 1", "--ranks 3 --algo direct", "--ranks 2 --type bf16 --reduce f32",
                              "--ranks 2 --conjugates dual --tp-seq 5", "--ranks 4 --vocab 11 --hidden 30"}) {
    const json report = json_of(std::string("ledger --layers 1 ") + options);
    for (const json& row : report["rows"]) EXPECT_EQ(row["difference"], 0) << options << ": " << row["stage"];
    EXPECT_EQ(report["matrix"], report["expected_matrix"]) << options;
  }
}

TEST(LedgerCommand, TellsWhyThereIsNoDevice) {
  const Outcome outcome = run_program("ledger --ranks 2 --layers 1 --device cuda");
  if (outcome.status == 0) GTEST_SKIP() << "a GPU is here";
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("--device cuda: "), std::string::npos) << outcome.err;
}

TEST(FsdpCommand, TrainsAlikeOnAnyNumberOfRanks) {
  const TemporaryFolder folder;
  std::ofstream(folder / "text") << std::string(4'000, 'a') << "the quick brown fox jumps over the lazy dog\n"
                                 << std::string(300, 'b');
  const std::string options = "fsdp train --text " + (folder / "text").string() +
                              " --steps 50 --batch 4 --length 16 --hidden 32 --intermediate 48 --heads 4"
                              " --kv-heads 2 --head-dim 8 --ranks ";
  const std::vector<double> one = json_of(options + "1")["losses"];
  ASSERT_EQ(one.size(), 50u);
  EXPECT_LT(one.back(), 0.5 * one.front());
  for (const char* ranks : {"2", "4"}) {
    const std::vector<double> losses = json_of(options + ranks)["losses"];
    for (std::size_t step = 0; step < one.size(); ++step)
      EXPECT_NEAR(losses[step], one[step], 1e-4 * one[step]) << ranks << " ranks, step " << step;
  }
}

TEST(FsdpCommand, WritesWhatTransformersComputes) {
  const TemporaryFolder folder;
  for (const std::string name : {"checkpoint_single", "checkpoint_sharded"}) {
    const std::string out = (folder / name).string();
    const Outcome outcome = run_program("fsdp run --ranks 3 --model " + golden_path(name) + " --ids " +
                                        golden_path(name) + "/ids.safetensors --out " + out);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const SafetensorsFile ours(out), golden(golden_path(name) + "/expected.safetensors");
    for (const TensorInfo& tensor : ours.tensors()) {
      const std::vector<float> a = floats_of(tensor), b = floats_of(golden.at(tensor.name));
      const std::vector<double> mine(a.begin(), a.end()), theirs(b.begin(), b.end());
      EXPECT_LT(relative_difference(mine, theirs), 1e-5) << name << " " << tensor.name;
    }
  }
}

TEST(FsdpCommand, RefusesBadInput) {
  const TemporaryFolder folder;
  const std::string text = (folder / "text").string(), model = golden_path("checkpoint_single"),
                    ids = model + "/ids.safetensors", out = (folder / "out").string();
  std::ofstream(text) << "short";
  expect_refused("fsdp train --text " + text + " --length 16", 2, "expected at least one sample of 16");
  expect_refused("fsdp train --text " + text + ".none", 1, "text.none");
  expect_refused("fsdp train --text " + text + " --steps 0", 2, "--steps");
  expect_refused("fsdp train --text " + text + " --length 2 --heads 3 --kv-heads 2", 2, "3");
  expect_refused("fsdp train --text " + text + " --length 2 --type f64", 2, "f64");
  expect_refused("fsdp", 2, "subcommand");
  expect_refused("ledger --ranks 0", 2, "--ranks 0");
  expect_refused("ledger --colour blue", 2, "--colour");
  expect_refused("ledger --tp-heads 3", 2, "3");

  const auto run = [&](const std::string& folder_of_model, const std::string& file) {
    return "fsdp run --ranks 2 --model " + folder_of_model + " --ids " + file + " --out " + out;
  };
  expect_refused(run(folder.path().string(), ids), 1, "config.json");
  expect_refused(run(model, text), 2, "text");
  std::ofstream(folder / "cut") << content_of(ids).substr(0, 100);
  expect_refused(run(model, (folder / "cut").string()), 2, "cut");
  const std::vector<std::int64_t> wrong{0, 1'000'000};
  write_safetensors(folder / "large", std::vector<NamedTensor>{{{"input_ids", DataType::i64, {1, 2}},
                                                                std::as_bytes(std::span(wrong))}});
  expect_refused(run(model, (folder / "large").string()), 2, "input_ids[0, 1] is 1000000");
  expect_refused("fsdp run --ranks 2 --model " + model + " --ids " + ids + " --out /no/such/folder/out", 1,
                 "/no/such/folder");
  EXPECT_FALSE(std::filesystem::exists(out)) << "a half-written file was left";
}

}  // namespace
}  // namespace rondo::test
