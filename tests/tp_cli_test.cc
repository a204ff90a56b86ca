// `rondo tp` as a user meets it.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/megatron_weights.h"
#include "models/safetensors_writer.h"
#include "tests/golden.h"
#include "tests/program.h"

namespace rondo {
namespace {

using nlohmann::json;
using test::Outcome;
using test::run_program;

constexpr const char* small = " --batch 1 --seq 6 --hidden 16 --heads 4 ";

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

json json_of(const std::string& arguments) {
  const Outcome outcome = run_program(arguments + " --json");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

void expect_exact(const json& rows) {
  EXPECT_FALSE(rows.empty());
  for (const json& row : rows) EXPECT_EQ(row["expected"], row["measured"]) << row["stage"];
}

// Says what is wrong, in one line, with this exit status.
void expect_refused(const std::string& arguments, int status, const std::string& part) {
  const Outcome outcome = run_program(arguments);
  EXPECT_EQ(outcome.status, status) << arguments;
  EXPECT_TRUE(holds(outcome.err, part)) << arguments << ": " << outcome.err;
  EXPECT_EQ(outcome.out, "") << arguments;
}

TEST(TpCommand, BlockShowsItsOutputWhateverTheRanks) {
  const json one = json_of("tp block --ranks 1" + std::string(small));
  for (const char* ranks : {"2", "4"}) {
    const json report = json_of(std::string("tp block --ranks ") + ranks + small);
    EXPECT_NEAR(report["output"]["norm"].get<double>(), one["output"]["norm"].get<double>(), 1e-4);
    EXPECT_NEAR(report["output"]["mean"].get<double>(), one["output"]["mean"].get<double>(), 1e-6);
    expect_exact(report["rows"]);
  }
}

TEST(TpCommand, BlockTellsWhoHoldsWhat) {
  const Outcome outcome = run_program(std::string("tp block --ranks 2") + small);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(holds(outcome.out, "2 to 3  8 to 15")) << outcome.out;
  EXPECT_TRUE(holds(outcome.out, "All 5 rows are exact on every rank.")) << outcome.out;
}

TEST(TpCommand, LayerRunsBackward) {
  for (const char* options :
       {"--conjugates megatron --algo ring", "--conjugates dual --algo direct", "--norm post"}) {
    const Outcome outcome = run_program(std::string("tp layer --ranks 4 ") + options + small);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(holds(outcome.out, "\nLoss: ")) << outcome.out;
    EXPECT_TRUE(holds(outcome.out, "\nMegatron layer backward OK\n")) << outcome.out;
    EXPECT_TRUE(holds(outcome.out, "rows are exact on every rank.")) << outcome.out;
  }
}

TEST(TpCommand, LedgerBalancesByDoubling) {
  ::setenv("RONDO_ALGO", "doubling", 1);
  for (const char* options : {"tp layer --ranks 4", "tp layer --ranks 4 --conjugates dual"}) {
    const Outcome outcome = run_program(options + std::string(small));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(holds(outcome.out, "rows are exact on every rank.")) << outcome.out;
  }
  ::unsetenv("RONDO_ALGO");
}

TEST(TpCommand, TrainingLowersTheLoss) {
  const json report = json_of(std::string("tp train --ranks 2 --layers 2 --steps 30 --lr 0.01") + small);
  const std::vector<double> losses = report["losses"];
  ASSERT_EQ(losses.size(), 30u);
  EXPECT_LT(losses.back(), 0.5 * losses.front());
  expect_exact(report["rows"]);
  const Outcome text = run_program(std::string("tp train --ranks 2 --steps 3") + small);
  EXPECT_TRUE(holds(text.out, "Loss: ")) << text.out;
  EXPECT_TRUE(holds(text.out, "\nBackward done: 3 steps")) << text.out;
}

TEST(TpCommand, ProfileTimesEachSegment) {
  const json report =
      json_of("tp profile --ranks 2 --seqs 8,16,32 --repeats 3 --batch 1 --hidden 16 --heads 4");
  ASSERT_EQ(report["times"].size(), 3u);
  for (const json& row : report["times"])
    for (const char* segment : {"attention", "FFN", "backward"}) {
      EXPECT_GT(row[segment]["local_ms"].get<double>(), 0.0);
      EXPECT_GE(row[segment]["ms"].get<double>(), 0.0);
    }
  EXPECT_EQ(report["observations"].size(), 4u);
  // One length gives no exponent.
  const json single = json_of("tp profile --ranks 1 --seqs 8 --repeats 1 --batch 1 --hidden 16 --heads 4");
  EXPECT_TRUE(single["exponents"]["attention"]["whole"].is_null());
  EXPECT_EQ(single["observations"].size(), 2u);
}

TEST(TpCommand, RefusesBadSizes) {
  expect_refused("tp layer --heads 6 --hidden 48", 2, "heads 6 is no multiple of ranks 4: 1 x 4 leaves 2");
  expect_refused("tp layer --heads 8 --hidden 20", 2, "hidden 20 is no multiple of heads 8: 2 x 8 leaves 4");
  expect_refused("tp block --ffn 10", 2, "ffn 10 is no multiple of ranks 4: 2 x 4 leaves 2");
  expect_refused("tp block --batch 0", 2, "batch is 0");
  expect_refused("tp train --seq 0", 2, "sequence is 0");
  expect_refused("tp profile --seqs 8,0", 2, "sequence is 0");
  expect_refused("tp block --ffn 0", 2, "ffn is 0");
  expect_refused("tp block --hidden 4611686018427387904 --heads 4", 2, "do not fit the address space");
}

TEST(TpCommand, RefusesBadUsage) {
  expect_refused("tp", 2, "subcommand");
  expect_refused("tp lair", 2, "");
  expect_refused("tp layer --batch -1", 2, "--batch");
  expect_refused("tp profile --seqs -8", 2, "--seqs");
  expect_refused("tp layer --norm middle", 2, "--norm");
  expect_refused("tp layer --conjugates triple", 2, "--conjugates");
  expect_refused("tp layer --algo star", 2, "--algo");
  expect_refused("tp layer --ranks 0", 2, "--ranks 0");
  expect_refused("tp train --steps 0", 2, "--steps");
  expect_refused("tp train --layers 0", 2, "--layers");
  expect_refused("tp profile --seqs 8,many", 2, "--seqs");
}

// Where no GPU is, the argument is named, and why it cannot be had, by every rank once.
TEST(TpCommand, TellsWhyThereIsNoDevice) {
  expect_refused("tp layer --device tpu", 2, "--device");
  const std::string sizes = small;
  const std::string one_length = " --seqs 8 --repeats 1 --batch 1 --hidden 16 --heads 4";
  for (const std::string& command :
       {"tp block" + sizes, "tp layer" + sizes, "tp train --steps 1" + sizes, "tp profile" + one_length}) {
    const Outcome outcome = run_program(command + " --ranks 2 --device cuda");
    if (outcome.status == 0) GTEST_SKIP() << "a GPU is here";
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("rondo: --device cuda: ")) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

// Files.

std::string golden_input() { return test::golden_path("tp_block.safetensors"); }

TEST(TpFile, OutputIsPyTorchs) {
  const SafetensorsFile golden(golden_input());
  for (const std::string norm : {"pre", "post"}) {
    const TemporaryFolder folder;
    const std::string out = (folder / "out.safetensors").string();
    const Outcome outcome = run_program("tp layer --ranks 2 --heads 4 --norm " + norm + " --in " +
                                        golden_input() + " --out " + out);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const SafetensorsFile file(out);
    EXPECT_EQ(file.tensors().size(), 8u);
    for (const TensorInfo& tensor : file.tensors()) {
      const TensorInfo& expected = golden.at(norm + "." + tensor.name);
      EXPECT_EQ(tensor.shape, expected.shape) << tensor.name;
      if (norm == "post" && tensor.name != "out") continue;  // 0 but for rounding
      const std::vector<float> ours = test::floats_of(tensor), theirs = test::floats_of(expected);
      EXPECT_LT(test::relative_difference(std::vector<double>(ours.begin(), ours.end()),
                                          std::vector<double>(theirs.begin(), theirs.end())),
                1e-5)
          << norm << "." << tensor.name;
    }
  }
}

// The input of the golden file, with one tensor made anew, or left out.
std::string write_input(const TemporaryFolder& folder, const std::string& name,
                        std::optional<TensorSpec> changed) {
  const SafetensorsFile golden(golden_input());
  const std::vector<std::byte> zeros(1 << 20);
  std::vector<NamedTensor> tensors;
  for (const char* each : {"x", "wq", "wk", "wv", "w1", "w2"}) {
    const TensorInfo& tensor = golden.at(each);
    if (each != name)
      tensors.push_back({{each, *tensor.type, tensor.shape}, tensor.bytes});
    else if (changed)
      tensors.push_back(
          {*changed, std::span(zeros).first(element_count(changed->shape).value() * size_of(changed->type))});
  }
  const std::string path = (folder / "in.safetensors").string();
  write_safetensors(path, tensors);
  return path;
}

// Refused, and what stood at the output's place stands there yet, and nothing beside it.
void expect_file_refused(const std::string& name, std::optional<TensorSpec> changed,
                         const std::string& part) {
  const TemporaryFolder folder;
  const std::string in = write_input(folder, name, std::move(changed));
  const std::string out = folder.write("out", "as it was").string();
  expect_refused("tp layer --heads 4 --in " + in + " --out " + out, 1, part);
  EXPECT_EQ(test::content_of(out), "as it was");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(TpFile, RefusesWhatDoesNotFit) {
  expect_file_refused("wk", std::nullopt, "wk");
  expect_file_refused("x", std::nullopt, "x");
  expect_file_refused("wk", TensorSpec{"wk", DataType::f32, {16, 8}},
                      "tensor wk has shape 16x8: expected 16x16");
  expect_file_refused("x", TensorSpec{"x", DataType::f32, {10, 16}},
                      "tensor x has shape 10x16: expected anyxanyxany");
  expect_file_refused("x", TensorSpec{"x", DataType::f32, {2, 0, 16}}, "tensor x has shape 2x0x16");
  expect_file_refused("w1", TensorSpec{"w1", DataType::f32, {8, 64}},
                      "tensor w1 has shape 8x64: expected 16xany");
  expect_file_refused("w2", TensorSpec{"w2", DataType::f32, {32, 16}},
                      "tensor w2 has shape 32x16: expected 64x16");
  expect_file_refused("x", TensorSpec{"x", DataType::f32, {}}, "tensor x has shape scalar");
  expect_file_refused("x", TensorSpec{"x", DataType::i64, {2, 5, 16}}, "x");
}

TEST(TpFile, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", "this is not safetensors").string();
  expect_refused("tp layer --in " + text, 1, text);
  expect_refused("tp layer --in " + folder.write("empty", "").string(), 1, "empty");
  expect_refused("tp layer --in " + (folder / "nowhere").string(), 1, "nowhere");
  expect_refused("tp layer --in " + folder.path().string(), 1, folder.path().string());
  expect_refused("tp layer --in " + golden_input() + " --batch 2", 2, "--in");
  expect_refused("tp layer --heads 5 --in " + golden_input(), 2, "hidden 16 is no multiple of heads 5");
}

TEST(TpFile, TellsWhereItCannotWrite) {
  const Outcome outcome =
      run_program(std::string("tp layer --out /nowhere/at/all.safetensors --ranks 2") + small);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(holds(outcome.err, "/nowhere/at/all.safetensors")) << outcome.err;
}

// Half-precision weights are what they round to.
TEST(TpFile, TakesOtherTypes) {
  const TemporaryFolder folder;
  const std::string in = write_input(folder, "w2", TensorSpec{"w2", DataType::f16, {64, 16}});
  const Outcome outcome = run_program("tp layer --heads 4 --in " + in + " --json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  // Without w2 the FFN adds nothing, and w1 gets no gradient.
  EXPECT_EQ(report["gradient_norms"]["w1"].get<double>(), 0.0);
  EXPECT_GT(report["gradient_norms"]["w2"].get<double>(), 0.0);
}

}  // namespace
}  // namespace rondo
