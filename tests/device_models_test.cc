// The models on a device, each rank a process, against the same ranks' CPUs: losses, logits, gradients and
// parameters, and the ledger to the byte. The device is the stand-in, with the kernels' bodies and the CPU's
// products; and a GPU, where there is one.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "models/fsdp_report.h"
#include "models/megatron.h"
#include "models/megatron_report.h"
#include "src/gather_bytes.h"
#include "tests/device_ranks.h"
#include "tests/error_message.h"
#include "tests/golden.h"
#include "tests/stand_in_math.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

// Sums of products are in another order on a device, in attention; on a GPU, in all of them. On the stand-in
// gradients of q's and k's weights, small differences of large numbers, were off by 2.2e-6.
constexpr double f32_tolerance = 1e-5;
// What is rounded to 16 bits may round the other way.
constexpr double f16_tolerance = 1e-3, bf16_tolerance = 8e-3;

// This process's device: made at the first use, since a fork takes no threads along, and never destroyed in a
// rank, since communicators close at their end what they have open there.
StandInDevice& own_stand_in() {
  static StandInDevice device;  // ranks end by _exit
  return device;
}

// A Compute on it.
class OnDevice {
 public:
  OnDevice(DeviceKind kind, const Communicator& communicator) {
    if (kind == DeviceKind::cuda) {
      compute_ = make_cuda_compute(communicator);
      return;
    }
    stand_in_ = &own_stand_in();
    use_device(stand_in_);
    compute_ = make_device_compute(*stand_in_, std::make_unique<StandInMath>(*stand_in_));
  }
  ~OnDevice() {
    compute_ = nullptr;
    if (!stand_in_) return;
    EXPECT_EQ(stand_in_->allocated_bytes(), 0u) << "not freed";
    use_device(nullptr);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  Compute& compute() { return *compute_; }
  StandInDevice& stand_in() { return *stand_in_; }

 private:
  StandInDevice* stand_in_ = nullptr;
  std::unique_ptr<Compute> compute_;
};

class OnDevices : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_device(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
  static double limit_of(DataType type) {
    if (type == DataType::f16) return f16_tolerance;
    if (type == DataType::bf16) return bf16_tolerance;
    return f32_tolerance;
  }
};

INSTANTIATE_TEST_SUITE_P(OnTheStandIn, OnDevices, ::testing::Values(DeviceKind::stand_in),
                         [](const auto&) { return "processes"; });
INSTANTIATE_TEST_SUITE_P(OnAGpu, OnDevices, ::testing::Values(DeviceKind::cuda),
                         [](const auto&) { return "processes"; });

// Rows and heads that the ranks and the lanes do not divide.
Qwen3Config small_config() {
  Qwen3Config config;
  config.vocab_size = 67, config.hidden_size = 36, config.intermediate_size = 50;
  config.num_hidden_layers = 2, config.num_attention_heads = 6, config.num_key_value_heads = 2;
  config.head_dim = 10;
  return config;
}

struct Qwen3Results {
  std::vector<double> losses;
  double gradient_norm;
  std::vector<float> logits;
  std::vector<std::vector<float>> gradients, parameters;  // this rank's rows
};

std::vector<float> host_copy(Compute& compute, std::span<const float> values) {
  std::vector<float> room;
  const std::span<const float> host = compute.on_host(values, room);
  return {host.begin(), host.end()};
}

// Two steps; rank 1 has no sample of its own in the second.
Qwen3Results train_qwen3(Communicator& comm, FsdpTypes types, Compute& compute) {
  const Qwen3Config config = small_config();
  Qwen3 model(comm.shared_from_this(), config, {types, 16, &compute});
  model.initialize_fresh(3);
  comm.ledger().reset();
  Qwen3Results results;
  constexpr std::uint64_t steps = 2;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    const std::size_t samples = step == 2 && comm.rank() == 1 ? 0 : 2;
    std::vector<std::int64_t> ids(samples * 9);
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int64_t>((i * i + step + static_cast<std::size_t>(comm.rank()) * 5) % 67);
    results.losses.push_back(model.forward(ids, {samples, 9}));
    results.logits.assign(model.logits().begin(), model.logits().end());
    model.zero_gradients();
    model.backward();
    results.gradient_norm = model.gradient_norm();
    model.scale_gradients(0.5f);
    model.step({}, static_cast<std::int64_t>(step));
  }
  for (const ReportRow& row : merge_rows(comm, fsdp_rows(model, types, steps)))
    EXPECT_TRUE(row.exact()) << row.row.stage;
  for (FsdpUnit* unit : model.units())
    for (std::size_t p = 0; p < unit->parameter_count(); ++p) {
      results.gradients.push_back(host_copy(compute, unit->gradient_shard(p)));
      results.parameters.push_back(host_copy(compute, unit->master_shard(p)));
    }
  return results;
}

TEST_P(OnDevices, Qwen3TrainsAsOnTheCpu) {
  for (const FsdpTypes types : {FsdpTypes{DataType::f32, DataType::f32},
                                {DataType::f16, DataType::f16},
                                {DataType::bf16, DataType::f32}})
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::direct})
      run_ranks(
          3,
          [&](Communicator& comm) {
            const double limit = limit_of(types.parameter);
            const Qwen3Results cpu = train_qwen3(comm, types, cpu_compute());
            OnDevice device(GetParam(), comm);
            const Qwen3Results ours = train_qwen3(comm, types, device.compute());
            for (std::size_t step = 0; step < cpu.losses.size(); ++step)
              EXPECT_NEAR(ours.losses[step], cpu.losses[step], limit * cpu.losses[step]);
            EXPECT_NEAR(ours.gradient_norm, cpu.gradient_norm, limit * cpu.gradient_norm);
            EXPECT_LT(relative_difference(comm, ours.logits, cpu.logits), limit);
            for (std::size_t p = 0; p < cpu.gradients.size(); ++p) {
              EXPECT_LT(relative_difference(comm, ours.gradients[p], cpu.gradients[p]), limit) << p;
              EXPECT_LT(relative_difference(comm, ours.parameters[p], cpu.parameters[p]), limit) << p;
            }
          },
          test_options(algorithm));
}

struct StackResults {
  std::vector<float> out, dx;
  std::vector<std::vector<float>> gradients, weights;
};

StackResults train_stack(Communicator& comm, const MegatronConfig& config, Compute& compute) {
  std::vector<MegatronWeights> layers;
  for (std::size_t layer = 0; layer < 2; ++layer)
    layers.push_back(generated_shard(config, layer, comm.rank(), comm.size()));
  comm.ledger().reset();
  MegatronModel model(comm, config, std::move(layers), compute);
  const std::vector<float> x = generated_input(config, "x"), target = generated_input(config, "target");
  std::vector<float> dout(config.elements());
  const std::span<const float> out = model.forward(x);
  squared_error_loss(out, target, dout);
  StackResults results;
  results.out.assign(out.begin(), out.end());
  const std::span<const float> dx = model.backward(dout);
  results.dx.assign(dx.begin(), dx.end());
  compute.finish();
  for (const ReportRow& row : merge_rows(comm, megatron_rows(comm, config, {2, 1, 1})))
    EXPECT_EQ(row.measured, row.expected) << row.row.stage;
  for (std::size_t layer = 0; layer < 2; ++layer) {
    MegatronBlock& block = model.block(layer);
    const MegatronWeights gradients = block.gradients();
    for (const MegatronWeightSpec& spec : weight_specs(config)) {
      results.gradients.push_back(gradients.*spec.values);
      const std::vector<float> zeros((gradients.*spec.values).size());
      Values first = copy_to(compute, zeros), second = copy_to(compute, zeros);
      compute.adamw_step({}, 1, block.weights().*spec.placed, block.weight_gradients().*spec.placed, first,
                         second);
      results.weights.push_back(host_copy(compute, block.weights().*spec.placed));
    }
  }
  return results;
}

TEST_P(OnDevices, MegatronTrainsAsOnTheCpu) {
  for (const NormPlace norm : {NormPlace::pre, NormPlace::post})
    for (const Conjugates conjugates : {Conjugates::megatron, Conjugates::dual})
      run_ranks(3, [&](Communicator& comm) {
        const MegatronConfig config{2, 7, 36, 6, 21, norm, conjugates};
        const double limit = limit_of(DataType::f32);
        const StackResults cpu = train_stack(comm, config, cpu_compute());
        OnDevice device(GetParam(), comm);
        const StackResults ours = train_stack(comm, config, device.compute());
        EXPECT_LT(relative_difference(comm, ours.out, cpu.out), limit);
        EXPECT_LT(relative_difference(comm, ours.dx, cpu.dx), limit);
        for (std::size_t w = 0; w < cpu.weights.size(); ++w) {
          EXPECT_LT(relative_difference(comm, ours.gradients[w], cpu.gradients[w]), limit) << w;
          EXPECT_LT(relative_difference(comm, ours.weights[w], cpu.weights[w]), limit) << w;
        }
      });
}

// Products of every combination of transposes, of parts of wider matrices too. A product does not read what
// it overwrites, and neither touches what is beyond its columns.
TEST_P(OnDevices, ProductsAreTheCpus) {
  run_ranks(1, [&](Communicator& comm) {
    OnDevice device(GetParam(), comm);
    Compute& compute = device.compute();
    constexpr std::size_t m = 5, k = 7, n = 3, wide = 9;
    std::vector<float> a(wide * wide), b(wide * wide), added_to(m * wide), overwritten(m * wide);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = generated_unit(1, i), b[i] = generated_unit(2, i);
    for (std::size_t i = 0; i < added_to.size(); ++i) {
      added_to[i] = generated_unit(3, i);
      overwritten[i] = i % wide < n ? std::numeric_limits<float>::quiet_NaN() : added_to[i];
    }
    const Values on_a = copy_to(compute, a), on_b = copy_to(compute, b);
    for (const bool a_is_transposed : {false, true})
      for (const bool b_is_transposed : {false, true}) {
        const auto left = [&](std::span<const float> values) {
          return a_is_transposed ? transposed(Matrix(values, k, m, wide)) : Matrix(values, m, k, wide);
        };
        const auto right = [&](std::span<const float> values) {
          return b_is_transposed ? transposed(Matrix(values, n, k, wide)) : Matrix(values, k, n, wide);
        };
        const auto expect_same = [&](std::span<const float> actual, std::span<const float> expected) {
          for (std::size_t i = 0; i < expected.size(); ++i)
            ASSERT_NEAR(actual[i], expected[i], i % wide < n ? 1e-6 : 0.0) << i;
        };
        std::vector<float> product = overwritten, sum = added_to;
        matmul(left(a), right(b), {product, m, n, wide});
        matmul_add(left(a), right(b), {sum, m, n, wide});
        Values on_product = copy_to(compute, overwritten), on_sum = copy_to(compute, added_to);
        compute.matmul(left(on_a), right(on_b), {on_product, m, n, wide});
        compute.matmul_add(left(on_a), right(on_b), {on_sum, m, n, wide});
        expect_same(host_copy(compute, on_product), product);
        expect_same(host_copy(compute, on_sum), sum);
      }
  });
}

// More than fits the memory that is copied through.
TEST_P(OnDevices, LargeValuesComeBackWhole) {
  run_ranks(1, [&](Communicator& comm) {
    OnDevice device(GetParam(), comm);
    std::vector<float> values((std::size_t{9} << 20) / sizeof(float) + 1);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = generated_unit(1, i);
    EXPECT_EQ(host_copy(device.compute(), copy_to(device.compute(), values)), values);
  });
}

TEST_P(OnDevices, WrongIdsAndShapesAreRefused) {
  run_ranks(1, [&](Communicator& comm) {
    OnDevice device(GetParam(), comm);
    Compute& compute = device.compute();
    Values table(compute, 12), out(compute, 8), logits(compute, 6), sums(compute, 2);
    EXPECT_EQ(error_message([&] {
                compute.gather_rows(std::vector<std::int64_t>{1, 3}, table, 4, out);
              }),
              "token id 3 at position 1 is not in the vocabulary of 3");
    EXPECT_EQ(error_message([&] {
                compute.cross_entropy(logits, std::vector<std::int64_t>{0, -1}, sums);
              }),
              "label -1 at position 1 is not in the vocabulary of 3");
    EXPECT_EQ(error_message([&] {
                compute.matmul({table, 3, 4}, {out, 2, 4}, {logits, 3, 2});
              }),
              "cannot multiply 3 x 4 by 2 x 4 into 3 x 2");
  });
}

// A step takes no more memory than the one before.
TEST(StandInModels, MemoryIsUsedAgain) {
  run_ranks(2, [](Communicator& comm) {
    OnDevice device(DeviceKind::stand_in, comm);
    const Qwen3Config config = small_config();
    Qwen3 model(comm.shared_from_this(), config, {{}, 16, &device.compute()});
    model.initialize_fresh(3);
    const std::vector<std::int64_t> ids{1, 2, 3, 4, 5, 6};
    std::size_t after_two = 0;
    for (int step = 1; step <= 4; ++step) {
      model.forward(ids, {2, 3});
      model.backward();
      if (step == 2) after_two = device.stand_in().allocated_bytes();
    }
    EXPECT_EQ(device.stand_in().allocated_bytes(), after_two);
  });
}

TEST(StandInModels, MemoryThatIsKeptMakesRoom) {
  run_ranks(1, [](Communicator& comm) {
    OnDevice device(DeviceKind::stand_in, comm);
    constexpr std::size_t mebi = std::size_t{1} << 20;
    device.stand_in().hold_at_most(6 * mebi);
    const std::vector<float> small(mebi, 1.0f), large(mebi + mebi / 4, 2.0f);
    { Values kept = copy_to(device.compute(), small); }
    EXPECT_EQ(host_copy(device.compute(), copy_to(device.compute(), large)), large);
    EXPECT_EQ(error_message([&] { Values(device.compute(), 2 * mebi); }), "stand-in: out of memory");
  });
}

// Rank 1 comes late, and rank 0 does not start the calls of all layers meanwhile.
TEST(StandInModels, PinnedMemoryDoesNotGrowWithTheLayers) {
  run_ranks(2, [](Communicator& comm) {
    OnDevice device(DeviceKind::stand_in, comm);
    Qwen3Config config = small_config();
    config.num_hidden_layers = 12;
    Qwen3 model(comm.shared_from_this(), config, {{}, 16, &device.compute()});
    model.initialize_fresh(3);
    model.forward(std::vector<std::int64_t>{1, 2, 3}, {1, 3});
    if (comm.rank() == 1) std::this_thread::sleep_for(300ms);
    model.backward();
    device.compute().finish();
    // What is copied through, two calls, and as many whose memory is on its way back.
    EXPECT_LE(device.stand_in().pinned_count(), 5u);
  });
}

TEST(StandInModels, TheLedgerIsWholeOnceAllIsFinished) {
  run_ranks(2, [](Communicator& comm) {
    OnDevice device(DeviceKind::stand_in, comm);
    const auto matrix_of_a_step = [&](Compute& compute) {
      Qwen3 model(comm.shared_from_this(), small_config(), {{}, 16, &compute});
      model.initialize_fresh(3);
      comm.ledger().reset();
      model.forward(std::vector<std::int64_t>{1, 2, 3}, {1, 3});
      model.backward();
      compute.finish();
      return ledger_matrix(comm, ByteClass::payload);
    };
    EXPECT_EQ(matrix_of_a_step(device.compute()), matrix_of_a_step(cpu_compute()));
  });
}

// A peer that dies, and a device that fails, end a step with an error, not with numbers.
TEST(StandInModels, FailuresAreToldWhereValuesComeBack) {
  run_ranks(2, [](Communicator& comm) {
    OnDevice device(DeviceKind::stand_in, comm);
    Qwen3 model(comm.shared_from_this(), small_config(), {{}, 16, &device.compute()});
    model.initialize_fresh(3);
    const std::vector<std::int64_t> ids{1, 2, 3};
    model.forward(ids, {1, 3});
    if (comm.rank() == 1) ::_exit(child_ok);
    const std::string message = error_message([&] {
      model.backward();
      model.gradient_norm();
    });
    EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
  });
  run_ranks(1, [](Communicator& comm) {
    OnDevice device(DeviceKind::stand_in, comm);
    Qwen3 model(comm.shared_from_this(), small_config(), {{}, 16, &device.compute()});
    model.initialize_fresh(3);
    device.stand_in().break_down();
    const std::string message = error_message([&] {
      model.forward(std::vector<std::int64_t>{1, 2, 3}, {1, 3});
    });
    EXPECT_NE(message.find("broken down"), std::string::npos) << message;
    ::_exit(::testing::Test::HasFailure() ? child_failed : child_ok);  // what is broken cannot be freed
  });
}

TEST(CudaModels, WithoutAGpuTheReasonIsTold) {
  if (why_no_device(DeviceKind::cuda).empty()) GTEST_SKIP() << "a GPU is here";
  run_ranks(1, [](Communicator& comm) {
    const std::string message = error_message([&] { make_cuda_compute(comm); });
    EXPECT_TRUE(message == "no CUDA driver on this machine, or Rondo was built without its header" ||
                message.starts_with("no GPU: ") || message == "Rondo was built without nvcc and cuBLAS")
        << message;
  });
}

}  // namespace
}  // namespace rondo::test
