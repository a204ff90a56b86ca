#include "models/megatron.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>

#include "models/megatron_report.h"
#include "models/safetensors.h"
#include "tests/error_message.h"
#include "tests/golden.h"
#include "tests/ranks.h"

namespace rondo {
namespace {

using test::run_ranks;
using test::test_options;

constexpr double tolerance = 1e-5;

const SafetensorsFile& golden() {
  static const SafetensorsFile file(test::golden_path("tp_block.safetensors"));
  return file;
}

// A tensor of the golden file, whole.
std::vector<float> golden_values(const std::string& name) { return test::floats_of(golden().at(name)); }

MegatronConfig golden_config(NormPlace norm, Conjugates conjugates) {
  return {2, 5, 16, 4, 64, norm, conjugates};
}

MegatronWeights golden_weights(const std::string& prefix) {
  return {golden_values(prefix + "wq"), golden_values(prefix + "wk"), golden_values(prefix + "wv"),
          golden_values(prefix + "w1"), golden_values(prefix + "w2")};
}

std::vector<double> doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

void expect_near(const std::string& name, std::span<const float> actual, std::span<const float> expected) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  EXPECT_LT(test::relative_difference(doubles(actual), doubles(expected)), tolerance) << name;
}

void expect_small(const std::string& name, std::span<const float> values) {
  for (const float value : values) ASSERT_LT(std::abs(value), 1e-7) << name;
}

struct Case {
  int ranks;
  NormPlace norm;
  Conjugates conjugates;
  Algorithm algorithm;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.ranks << " ranks, " << name_of(c.norm) << "-norm, " << name_of(c.conjugates) << ", "
       << name_of(c.algorithm);
}

class Block : public testing::TestWithParam<Case> {};

// Runs a body on every rank with a model of the golden file's weights.
void run_golden(const Case& c, const std::function<void(Communicator&, MegatronModel&)>& body) {
  run_ranks(
      c.ranks,
      [&](Communicator& communicator) {
        const MegatronConfig config = golden_config(c.norm, c.conjugates);
        MegatronModel model(communicator, config,
                            {shard_of(golden_weights(""), config, communicator.rank(), communicator.size())});
        body(communicator, model);
      },
      test_options(c.algorithm));
}

// For the loss sum(out * g).
TEST_P(Block, OutputAndGradientsAreThoseOfOneProcess) {
  run_golden(GetParam(), [&](Communicator& communicator, MegatronModel& model) {
    const std::string prefix = fmt::format("{}.", name_of(GetParam().norm));
    const std::vector<float> x = golden_values("x");
    expect_near("out", model.forward(x), golden_values(prefix + "out"));
    expect_near("grad.x", model.backward(golden_values("g")), golden_values(prefix + "g.grad.x"));
    const MegatronConfig config = golden_config(GetParam().norm, GetParam().conjugates);
    const MegatronWeights expected =
        shard_of(golden_weights(prefix + "g.grad."), config, communicator.rank(), communicator.size());
    for (const MegatronWeightSpec& spec : weight_specs(config))
      expect_near(spec.name, model.block(0).gradients().*spec.values, expected.*spec.values);
  });
}

// For the loss mean(out). Of a LayerNorm's output that is 0, and its gradient is 0.
TEST_P(Block, MeanLossIsThatOfOneProcess) {
  run_golden(GetParam(), [&](Communicator& communicator, MegatronModel& model) {
    const std::vector<float> x = golden_values("x");
    const std::span<const float> out = model.forward(x);
    std::vector<float> dout(out.size());
    const double loss = mean_loss(out, dout);
    const std::span<const float> dx = model.backward(dout);
    const MegatronWeights gradients = model.block(0).gradients();
    const MegatronConfig config = golden_config(GetParam().norm, GetParam().conjugates);
    const std::string prefix = fmt::format("{}.", name_of(GetParam().norm));
    const float expected_loss = golden_values(prefix + "loss")[0];
    if (GetParam().norm == NormPlace::post) {
      EXPECT_NEAR(loss, 0.0, 1e-7);
      expect_small("grad.x", dx);
      for (const MegatronWeightSpec& spec : weight_specs(config))
        expect_small(spec.name, gradients.*spec.values);
      return;
    }
    EXPECT_NEAR(loss, expected_loss, tolerance * std::abs(expected_loss));
    expect_near("grad.x", dx, golden_values(prefix + "grad.x"));
    const MegatronWeights expected =
        shard_of(golden_weights(prefix + "grad."), config, communicator.rank(), communicator.size());
    for (const MegatronWeightSpec& spec : weight_specs(config))
      expect_near(spec.name, gradients.*spec.values, expected.*spec.values);
  });
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const int ranks : {1, 2, 4})
    for (const NormPlace norm : {NormPlace::pre, NormPlace::post})
      for (const Conjugates conjugates : {Conjugates::megatron, Conjugates::dual})
        for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring})
          cases.push_back({ranks, norm, conjugates, algorithm});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, Block, testing::ValuesIn(all_cases()), [](const auto& info) {
  const Case& c = info.param;
  return fmt::format("{}ranks_{}_{}_{}", c.ranks, name_of(c.norm), name_of(c.conjugates),
                     name_of(c.algorithm));
});

// The input and the weights of the golden file, from their names alone.
TEST(MegatronWeights, GeneratorMakesTheGoldenFilesTensors) {
  const MegatronConfig config = golden_config(NormPlace::pre, Conjugates::megatron);
  EXPECT_EQ(generated_input(config, "x"), golden_values("x"));
  for (const int ranks : {1, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const MegatronWeights made = generated_shard(config, 0, rank, ranks);
      const MegatronWeights expected = shard_of(golden_weights(""), config, rank, ranks);
      for (const MegatronWeightSpec& spec : weight_specs(config))
        EXPECT_EQ(made.*spec.values, expected.*spec.values) << spec.name << " of rank " << rank;
    }
  }
}

TEST(MegatronWeights, AreGatheredAsTheyWereCut) {
  const MegatronConfig config = golden_config(NormPlace::pre, Conjugates::megatron);
  run_ranks(4, [&](Communicator& communicator) {
    const MegatronWeights whole = golden_weights("");
    const MegatronWeights gathered = gather_to_first(
        communicator, config, shard_of(whole, config, communicator.rank(), communicator.size()));
    for (const MegatronWeightSpec& spec : weight_specs(config)) {
      if (communicator.rank() == 0) {
        EXPECT_EQ(gathered.*spec.values, whole.*spec.values) << spec.name;
      } else {
        EXPECT_TRUE((gathered.*spec.values).empty()) << spec.name;
      }
    }
  });
}

struct StackRun {
  std::vector<float> out, dx, dwq;
};

// A stack of generated layers, forward and backward.
StackRun run_stack(Communicator& communicator, const MegatronConfig& config, std::size_t layers,
                   std::uint64_t passes) {
  std::vector<MegatronWeights> weights;
  for (std::size_t layer = 0; layer < layers; ++layer)
    weights.push_back(generated_shard(config, layer, communicator.rank(), communicator.size()));
  MegatronModel model(communicator, config, std::move(weights));
  const std::vector<float> x = generated_input(config, "x"), g = generated_input(config, "g");
  StackRun run;
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    const std::span<const float> out = model.forward(x), dx = model.backward(g);
    run = {{out.begin(), out.end()}, {dx.begin(), dx.end()}, model.block(0).gradients().wq};
  }
  return run;
}

// Three layers on three ranks against one rank: x's gradient crosses all layers, and with dual operators is
// whole only at the leaf.
TEST(MegatronStack, IsThatOfOneRank) {
  for (const Conjugates conjugates : {Conjugates::megatron, Conjugates::dual}) {
    const MegatronConfig config{1, 7, 12, 3, 9, NormPlace::pre, conjugates};
    StackRun one;
    run_ranks(
        1, [&](Communicator& communicator) { one = run_stack(communicator, config, 3, 1); }, test_options(),
        test::RanksAre::threads);
    run_ranks(3, [&](Communicator& communicator) {
      const StackRun run = run_stack(communicator, config, 3, 1);
      expect_near("out", run.out, one.out);
      expect_near("dx", run.dx, one.dx);
      std::vector<float> dwq(run.dwq.size());
      const Patch mine = weight_specs(config)[0].patch(communicator.rank(), 3);
      copy_extents(extents_of(mine, one.dwq, config.hidden), extents_of(dwq));
      expect_near("dwq", run.dwq, dwq);
    });
  }
}

// Odd sizes where they may be. B S H is a multiple of the ranks, as the heads are: the shares of x are equal,
// and those of its hash, two numbers, are not on three and four ranks.
TEST(MegatronLedger, EveryRowIsExact) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::doubling}) {
      for (const Conjugates conjugates : {Conjugates::megatron, Conjugates::dual}) {
        const std::size_t heads = static_cast<std::size_t>(ranks);
        const MegatronConfig config{3, 5, 7 * heads, heads, 5 * heads, NormPlace::pre, conjugates};
        run_ranks(
            ranks,
            [&](Communicator& communicator) {
              run_stack(communicator, config, 2, 3);
              const SentPayload sent(communicator);
              const std::vector<ReportRow> rows =
                  merge_rows(communicator, megatron_rows(communicator, config, {2, 3, 3}));
              std::uint64_t booked = 0;
              for (const ReportRow& row : rows) {
                EXPECT_TRUE(row.exact()) << row.row.stage << " on " << ranks << " ranks";
                if (row.row.collective != "both")
                  booked += row.measured[static_cast<std::size_t>(communicator.rank())];
              }
              EXPECT_EQ(booked, sent.total());
            },
            test_options(algorithm));
      }
    }
  }
}

// The figures of docs/ledger.md at 4 ranks: the backward pass is 4/3 of the forward with Megatron's
// conjugates, and exactly the forward with dual operators.
TEST(MegatronLedger, BackwardAgainstForward) {
  for (const Conjugates conjugates : {Conjugates::megatron, Conjugates::dual}) {
    const MegatronConfig config{2, 6, 16, 4, 64, NormPlace::pre, conjugates};
    // A ring: the algorithm of the formulas at every size.
    const auto options = test_options(Algorithm::ring);
    run_ranks(
        4,
        [&](Communicator& communicator) {
          run_stack(communicator, config, 1, 1);
          const auto rows = megatron_rows(communicator, config, {});
          const auto measured = [&](const std::string& stage) {
            for (const LocalRow& row : rows)
              if (row.stage == stage) return row.measured;
            ADD_FAILURE() << "no row " << stage;
            return std::uint64_t{0};
          };
          const std::uint64_t bytes = 2 * 6 * 16 * sizeof(float);  // of B S H elements
          EXPECT_EQ(measured("attention forward"), bytes * 3 / 4);
          EXPECT_EQ(measured("FFN forward"), 2 * bytes * 3 / 4);
          EXPECT_EQ(measured("residual, GELU, LayerNorm"), 0u);
          EXPECT_EQ(measured("backward, both"), (conjugates == Conjugates::dual ? 3 : 4) * bytes * 3 / 4);
        },
        options);
  }
}

// What the formula says for shares of 2, 2, 1 and of 1, 1, 0, 0 elements.
TEST(MegatronLedger, UnevenShares) {
  EXPECT_EQ(elements_sent(CallKind::all_reduce, Algorithm::ring, 5, 0, 3), 10u - 2 - 2);
  EXPECT_EQ(elements_sent(CallKind::all_reduce, Algorithm::ring, 5, 1, 3), 10u - 2 - 1);
  EXPECT_EQ(elements_sent(CallKind::all_reduce, Algorithm::direct, 5, 0, 3), (2u + 1) + 2 * 2);
  EXPECT_EQ(elements_sent(CallKind::all_reduce, Algorithm::direct, 5, 2, 3), (2u + 2) + 2 * 1);
  EXPECT_EQ(elements_sent(CallKind::all_reduce, Algorithm::direct, 2, 3, 4), 2u);
  EXPECT_EQ(elements_sent(CallKind::all_reduce, Algorithm::ring, 2, 3, 4), 4u - 0 - 1);
  EXPECT_EQ(elements_sent(CallKind::all_reduce, Algorithm::slots, 5, 2, 3), 10u);
  // Rank 0 gives rank 2 its own and rank 1's input, and rank 1 the sum.
  EXPECT_EQ(elements_sent(CallKind::all_reduce, Algorithm::doubling, 5, 0, 3), 15u);
  EXPECT_EQ(elements_sent(CallKind::all_reduce, Algorithm::doubling, 5, 1, 3), 5u);
  EXPECT_EQ(elements_sent(CallKind::all_reduce, Algorithm::direct, 5, 0, 1), 0u);
  EXPECT_EQ(elements_sent(CallKind::all_reduce, Algorithm::ring, 5, 0, 1), 0u);
}

// One bit on one rank is enough, and all ranks are told.
TEST(MegatronModel, RefusesAnInputThatDiffersBetweenRanks) {
  run_ranks(4, [&](Communicator& communicator) {
    const MegatronConfig config = golden_config(NormPlace::pre, Conjugates::megatron);
    MegatronModel model(communicator, config, {generated_shard(config, 0, communicator.rank(), 4)});
    std::vector<float> x = generated_input(config, "x");
    if (communicator.rank() == 2) x[77] = std::nextafter(x[77], 2.0f);
    const std::string message = error_message([&] { model.forward(x); });
    EXPECT_NE(message.find("x (160 elements) is not the same on all ranks"), std::string::npos) << message;
  });
}

std::string check_message(const MegatronConfig& config, int ranks) {
  return error_message([&] { check(config, ranks); });
}

TEST(MegatronConfig, ErrorsNameTheNumbers) {
  EXPECT_EQ(check_message({.heads = 6, .ffn = 8}, 4),
            "hidden 512 is no multiple of heads 6: 85 x 6 leaves 2");
  EXPECT_EQ(check_message({.hidden = 12, .heads = 6}, 4),
            "heads 6 is no multiple of ranks 4: 1 x 4 leaves 2");
  EXPECT_EQ(check_message({.ffn = 6}, 4), "ffn 6 is no multiple of ranks 4: 1 x 4 leaves 2");
  EXPECT_EQ(check_message({.batch = 0}, 1), "batch is 0: expected at least 1");
  EXPECT_EQ(check_message({.sequence = 0}, 1), "sequence is 0: expected at least 1");
  EXPECT_EQ(check_message({.hidden = 0}, 1), "hidden is 0: expected at least 1");
  EXPECT_EQ(check_message({.heads = 0}, 1), "heads is 0: expected at least 1");
  EXPECT_EQ(check_message({.ffn = 0}, 1), "ffn is 0: expected at least 1");
  EXPECT_NE(check_message({.sequence = std::size_t{1} << 40}, 1).find("do not fit"), std::string::npos);
  EXPECT_NE(check_message({.hidden = std::size_t{1} << 62, .heads = 1}, 1).find("do not fit"),
            std::string::npos);
}

TEST(MegatronModel, RefusesWeightsOfAnotherSize) {
  run_ranks(
      1,
      [&](Communicator& communicator) {
        const MegatronConfig config = golden_config(NormPlace::pre, Conjugates::megatron);
        MegatronWeights weights = generated_shard(config, 0, 0, 1);
        weights.w1.pop_back();
        EXPECT_EQ(error_message([&] { MegatronModel(communicator, config, {weights}); }),
                  "w1 has 1023 elements: expected 1024");
        EXPECT_EQ(error_message([&] { MegatronModel(communicator, config, {}); }),
                  "layers is 0: expected at least 1");
      },
      test_options(), test::RanksAre::threads);
}

TEST(Loss, SquaredErrorAndItsGradient) {
  const std::vector<float> out{1.0f, 2.0f, -1.0f, 0.5f}, target{0.0f, 2.0f, 1.0f, 0.0f};
  std::vector<float> dout(4);
  EXPECT_DOUBLE_EQ(squared_error_loss(out, target, dout), (1.0 + 4.0 + 0.25) / 4.0);
  EXPECT_EQ(dout, (std::vector<float>{0.5f, 0.0f, -1.0f, 0.25f}));
}

}  // namespace
}  // namespace rondo
