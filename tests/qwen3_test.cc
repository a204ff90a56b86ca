// Qwen3 under FSDP against transformers and PyTorch's own FSDP2 (tests/golden/README.md).
#include "models/qwen3.h"

#include "models/fsdp_report.h"
#include "tests/golden.h"
#include "tests/ranks.h"

namespace rondo::test {
namespace {

// Rounding of f32: f32 against f64 in PyTorch differs by up to 1.1e-6 a tensor.
constexpr double f32_tolerance = 1e-5;
// FSDP2 against f32, measured: 1.6e-3 and 1.2e-2; the 16-bit golden tensors carry about as much of their own.
constexpr double f16_tolerance = 2e-3, bf16_tolerance = 1.4e-2;

// This rank's samples, as torch.chunk would cut them.
struct MySamples {
  std::vector<std::int64_t> ids;
  TokenShape shape;
  RowRange samples;
};

MySamples my_samples(const Communicator& comm, const TensorInfo& tensor) {
  const std::vector<std::int64_t> all = integers_of(tensor);
  const std::size_t length = tensor.shape[1];
  const RowRange samples = shard_rows(tensor.shape[0], comm.rank(), comm.size());
  return {{all.begin() + static_cast<long>(samples.begin * length),
           all.begin() + static_cast<long>(samples.end * length)},
          {samples.size(), length},
          samples};
}

std::span<const float> rows_of(std::span<const float> whole, RowRange rows, std::size_t total_rows) {
  const std::size_t width = whole.size() / total_rows;
  return whole.subspan(rows.begin * width, rows.size() * width);
}

void expect_gradients(Qwen3& model, const std::function<const TensorInfo&(const std::string&)>& golden,
                      double tolerance) {
  for (FsdpUnit* unit : model.units()) {
    for (std::size_t p = 0; p < unit->parameter_count(); ++p) {
      const ParameterSpec& spec = unit->spec(p);
      const std::vector<float> whole = floats_of(golden("grad." + spec.name));
      const double difference = relative_difference(model.communicator(), unit->gradient_shard(p),
                                                    rows_of(whole, unit->rows(p), spec.shape[0]));
      EXPECT_LT(difference, tolerance) << spec.name;
    }
  }
}

struct ModelCase {
  const char* file;
  int ranks;
  Algorithm algorithm;
};

class GoldenModel : public ::testing::TestWithParam<ModelCase> {};

TEST_P(GoldenModel, LogitsLossAndGradientsAreTransformers) {
  run_ranks(
      GetParam().ranks,
      [](Communicator& comm) {
        const SafetensorsFile golden(golden_path(GetParam().file));
        Qwen3 model(comm.shared_from_this(), config_of(golden), {});
        model.initialize([&](const ParameterSpec& spec, RowRange rows, std::span<float> out) {
          read_rows(golden.at(spec.name), rows, DataType::f32, std::as_writable_bytes(out));
        });
        const MySamples mine = my_samples(comm, golden.at("input_ids"));
        const double loss = model.forward(mine.ids, mine.shape);
        EXPECT_NEAR(loss, floats_of(golden.at("loss"))[0], f32_tolerance * loss);
        const std::vector<float> logits = floats_of(golden.at("logits"));
        EXPECT_LT(relative_difference(comm, model.logits(),
                                      rows_of(logits, mine.samples, golden.at("input_ids").shape[0])),
                  f32_tolerance);
        model.backward();
        expect_gradients(
            model, [&](const std::string& name) -> const TensorInfo& { return golden.at(name); },
            f32_tolerance);
      },
      test_options(GetParam().algorithm));
}

std::vector<ModelCase> model_cases() {
  std::vector<ModelCase> all;
  for (const char* file : {"qwen3_gqa1.safetensors", "qwen3_gqa2.safetensors", "qwen3_gqa4.safetensors"})
    for (const int ranks : {1, 2, 3, 5})
      all.push_back({file, ranks, ranks == 2 ? Algorithm::ring : Algorithm::direct});
  // More ranks than samples: some have none, and still take part in every collective.
  all.push_back({"qwen3_gqa4.safetensors", 7, Algorithm::ring});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModel, ::testing::ValuesIn(model_cases()), [](const auto& info) {
  return std::string(info.param.file).substr(0, 10) + "_" + std::to_string(info.param.ranks);
});

struct LayerCase {
  FsdpTypes types;
  const char* prefix;  // of the golden tensors, which are one process's in this type
  double tolerance;
};

class GoldenLayer : public ::testing::TestWithParam<LayerCase> {};

// Document 1: one layer, 4 ranks with 2 samples each.
TEST_P(GoldenLayer, OutputAndGradientsArePyTorchs) {
  run_ranks(4, [](Communicator& comm) {
    const SafetensorsFile golden(golden_path("layer_doc1.safetensors"));
    const Qwen3Config config = config_of(golden);
    ParameterUnit parameters = qwen3_layer_unit(config, 0);
    for (ParameterSpec& spec : parameters.parameters)
      spec.name = spec.name.substr(std::string("model.layers.0.").size());
    BlockPool pool(cpu_compute());
    FsdpUnit unit(comm.shared_from_this(), parameters, GetParam().types, pool);
    unit.initialize(generated_weight);
    const Rope rope(static_cast<float>(config.rope_theta), config.head_dim, 64);
    const Qwen3Layer layer(cpu_compute(), config, rope);

    const TokenShape shape{2, 8};
    const std::size_t elements = shape.tokens() * config.hidden_size,
                      first = static_cast<std::size_t>(comm.rank()) * elements;
    std::vector<float> x(elements), g(elements);
    for (std::size_t i = 0; i < elements; ++i) {
      x[i] = generated_unit(fnv1a("x"), first + i);
      g[i] = generated_unit(fnv1a("g"), first + i) / 2;
    }
    Qwen3LayerActivations kept;
    unit.unshard("forward");
    const Values out = layer.forward(unit, shape, copy_to(cpu_compute(), x), kept);
    unit.reshard();
    EXPECT_LT(relative_difference(
                  comm, out, rows_of(floats_of(golden.at("out")), {first, first + elements}, 4 * elements)),
              GetParam().tolerance);
    unit.unshard("backward");
    Values dx = layer.backward(unit, shape, copy_to(cpu_compute(), g), kept);
    unit.reshard();
    unit.reduce_gradients("backward");
    for (float& value : dx.span()) value /= 4;
    EXPECT_LT(relative_difference(
                  comm, dx, rows_of(floats_of(golden.at("x.grad")), {first, first + elements}, 4 * elements)),
              GetParam().tolerance);
    for (std::size_t p = 0; p < unit.parameter_count(); ++p) {
      const ParameterSpec& spec = unit.spec(p);
      const std::size_t width = spec.shape.size() == 1 ? 1 : spec.shape[1];
      const std::vector<double> ours =
          sketch(comm, spec.name, unit.gradient_shard(p), unit.rows(p).begin * width);
      EXPECT_LT(relative_difference(ours, doubles_of(golden.at(spec.name + ".sketch"))), GetParam().tolerance)
          << spec.name;
      // PyTorch's own FSDP2 on 4 processes in the same types; both sides have rounded.
      EXPECT_LT(relative_difference(ours, doubles_of(golden.at(std::string(GetParam().prefix) + "fsdp." +
                                                               spec.name + ".sketch"))),
                1.5 * GetParam().tolerance)
          << spec.name;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, GoldenLayer,
                         ::testing::Values(LayerCase{{DataType::f32, DataType::f32}, "", f32_tolerance},
                                           LayerCase{{DataType::f16, DataType::f16}, "f16.", f16_tolerance},
                                           LayerCase{{DataType::f16, DataType::f32}, "f16.", f16_tolerance},
                                           LayerCase{
                                               {DataType::bf16, DataType::bf16}, "bf16.", bf16_tolerance}),
                         [](const auto& info) {
                           return fmt::format("{}_{}", name_of(info.param.types.parameter),
                                              name_of(info.param.types.gradient));
                         });

// The loss curve of torch's AdamW, and the parameters at its end.
class TrainingCurve : public ::testing::TestWithParam<int> {};

TEST_P(TrainingCurve, IsTorchs) {
  run_ranks(GetParam(), [](Communicator& comm) {
    const SafetensorsFile golden(golden_path("train_curve.safetensors"));
    Qwen3 model(comm.shared_from_this(), config_of(golden), {});
    model.initialize(generated_weight);
    const TensorInfo& ids = golden.at("input_ids");
    const std::size_t steps = ids.shape[0], step_tokens = ids.shape[1] * ids.shape[2];
    const std::vector<float> losses = floats_of(golden.at("losses"));
    const AdamW options{1e-2, 0.9, 0.95, 1e-8, 0.1};
    for (std::size_t step = 0; step < steps; ++step) {
      TensorInfo of_step = ids;
      of_step.shape = {ids.shape[1], ids.shape[2]};
      of_step.bytes =
          ids.bytes.subspan(step * step_tokens * sizeof(std::int64_t), step_tokens * sizeof(std::int64_t));
      const MySamples mine = my_samples(comm, of_step);
      EXPECT_NEAR(model.forward(mine.ids, mine.shape), losses[step], 1e-4 * losses[step]) << "step " << step;
      model.zero_gradients();
      model.backward();
      model.step(options, static_cast<std::int64_t>(step) + 1);
    }
    for (FsdpUnit* unit : model.units()) {
      for (std::size_t p = 0; p < unit->parameter_count(); ++p) {
        const ParameterSpec& spec = unit->spec(p);
        const std::size_t width = spec.shape.size() == 1 ? 1 : spec.shape[1];
        EXPECT_LT(
            relative_difference(sketch(comm, spec.name, unit->master_shard(p), unit->rows(p).begin * width),
                                doubles_of(golden.at(spec.name + ".sketch"))),
            1e-4)
            << spec.name;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, TrainingCurve, ::testing::Values(1, 2, 4));

Qwen3Config document_config(std::size_t layers) {
  Qwen3Config config;
  config.vocab_size = 512;
  config.hidden_size = 512;
  config.intermediate_size = 1024;
  config.num_hidden_layers = layers;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 4;
  config.head_dim = 64;
  config.tie_word_embeddings = true;
  return config;
}

struct LedgerCase {
  int ranks;
  Algorithm algorithm;
  FsdpTypes types;
};

class FsdpLedger : public ::testing::TestWithParam<LedgerCase> {};

TEST_P(FsdpLedger, EveryRowIsExactOnEveryRank) {
  run_ranks(
      GetParam().ranks,
      [](Communicator& comm) {
        Qwen3 model(comm.shared_from_this(), document_config(2), {GetParam().types});
        model.initialize_fresh(1);
        comm.ledger().reset();
        std::vector<std::int64_t> ids(16);
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 31 % 512);
        model.forward(ids, {2, 8});
        model.backward();
        for (const ReportRow& row : merge_rows(comm, fsdp_rows(model, GetParam().types, 1)))
          EXPECT_EQ(row.expected, row.measured) << row.row.stage << " " << row.row.collective;
      },
      test_options(GetParam().algorithm));
}

constexpr FsdpTypes f16_types{DataType::f16, DataType::f16}, f16_f32_types{DataType::f16, DataType::f32};

INSTANTIATE_TEST_SUITE_P(
    All, FsdpLedger,
    ::testing::Values(LedgerCase{1, Algorithm::direct, f16_types}, LedgerCase{2, Algorithm::ring, f16_types},
                      LedgerCase{3, Algorithm::ring, f16_types}, LedgerCase{3, Algorithm::direct, f16_types},
                      LedgerCase{4, Algorithm::ring, f16_types},
                      LedgerCase{4, Algorithm::direct, f16_f32_types},
                      LedgerCase{3, Algorithm::doubling, f16_types},
                      LedgerCase{4, Algorithm::doubling, f16_f32_types},
                      LedgerCase{5, Algorithm::ring, {DataType::bf16, DataType::bf16}}),
    [](const auto& info) {
      return fmt::format("{}_{}_{}_{}", info.param.ranks, name_of(info.param.algorithm),
                         name_of(info.param.types.parameter), name_of(info.param.types.gradient));
    });

// The figures of the document and of PyTorch's FSDP2, as numbers.
TEST(FsdpLedger, DocumentOnesFigures) {
  const ParameterUnit layer = qwen3_layer_unit(document_config(1), 0);
  EXPECT_EQ(element_count(layer), 2'360'448u);
  for (int rank = 0; rank < 4; ++rank) {
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct}) {
      EXPECT_EQ(expected_unit_bytes(layer, CallKind::all_gather, algorithm, DataType::f16, rank, 4),
                3'540'672u);
      EXPECT_EQ(expected_unit_bytes(layer, CallKind::reduce_scatter, algorithm, DataType::f16, rank, 4),
                3'540'672u);
      EXPECT_EQ(expected_unit_bytes(layer, CallKind::reduce_scatter, algorithm, DataType::f32, rank, 4),
                7'081'344u);
    }
  }
}

// The order in which FSDP2 gathers and scatters, seen in PyTorch: the gather before a layer's backward is
// issued before the backward of the layer behind it.
TEST(Fsdp, IssuesCollectivesInTheOrderOfFsdp2) {
  run_ranks(2, [](Communicator& comm) {
    Qwen3Config config = document_config(3);
    config.hidden_size = 16;
    config.intermediate_size = 8;
    config.head_dim = 4;
    Qwen3 model(comm.shared_from_this(), config, {});
    model.initialize_fresh(1);
    const std::vector<std::int64_t> ids{1, 2, 3, 4};
    model.forward(ids, {1, 4});
    model.backward();
    const auto calls = [&](const std::string& scope) {
      std::uint64_t count = 0;
      for (const auto& [key, row] : comm.ledger().rows())
        if (key.scope == scope) count += row.calls;
      return count;
    };
    for (FsdpUnit& layer : model.layers()) {
      EXPECT_EQ(calls(qwen3_scope::forward(layer)), 1u);
      EXPECT_EQ(calls(qwen3_scope::backward(layer)), 1u);
      EXPECT_EQ(calls(qwen3_scope::reduce(layer)), 1u);
    }
    EXPECT_EQ(calls(qwen3_scope::forward(model.root())), 1u);
    EXPECT_EQ(calls(qwen3_scope::backward(model.root())), 0u);
    EXPECT_EQ(calls(qwen3_scope::reduce(model.root())), 1u);
  });
}

}  // namespace
}  // namespace rondo::test
