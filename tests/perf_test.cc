// The perf programs: their arithmetic, and the programs themselves, run as a user runs them. PERF_FOLDER
// names the folder of what the build made, PERF_COMPARE the script beside their sources.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/half.h"
#include "perf/bandwidth.h"
#include "perf/options.h"
#include "perf/pattern.h"
#include "perf/values.h"
#include "src/error.h"
#include "tests/program.h"

namespace rondo {
namespace {

using nlohmann::json;
using test::Outcome;

constexpr std::uint64_t mib = 1 << 20;
constexpr ReduceOp all_ops[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::max,
                                ReduceOp::min, ReduceOp::avg,  ReduceOp::premul_sum};

TEST(Bandwidth, FollowsTheDocumentedFormulas) {
  const Bandwidth parts = bandwidth(96 * mib, 10e-3, parts_bus_factor(3));
  EXPECT_NEAR(parts.algorithm, 10.066, 5e-4);
  EXPECT_NEAR(parts.bus, 6.711, 5e-4);
  const Bandwidth reduced = bandwidth(96 * mib, 10e-3, all_reduce_bus_factor(3));
  EXPECT_NEAR(reduced.algorithm, 10.066, 5e-4);
  EXPECT_NEAR(reduced.bus, 13.422, 5e-4);
  EXPECT_NEAR(bandwidth(96 * mib, 10e-3, whole_bus_factor(3)).bus, 10.066, 5e-4);
}

TEST(Bandwidth, IsZeroForOneRankAndForNoTime) {
  for (const auto factor : {all_reduce_bus_factor, parts_bus_factor, whole_bus_factor})
    EXPECT_EQ(bandwidth(96 * mib, 10e-3, factor(1)).bus, 0.0);
  EXPECT_EQ(bandwidth(96 * mib, 0, 1).algorithm, 0.0);
  EXPECT_EQ(bandwidth(0, 0, 1).bus, 0.0);
  EXPECT_EQ(bandwidth(96 * mib, NAN, 1).bus, 0.0);
}

TEST(PerfPattern, FindsEveryWrongElement) {
  for (int type = 0; type < data_type_count; ++type) {
    const auto data_type = static_cast<DataType>(type);
    const Pattern pattern(data_type, [](std::size_t i) { return static_cast<double>(i % 100); });
    const std::size_t count = 2 * Pattern::period + 7, element = size_of(data_type);
    std::vector<std::byte> buffer(count * element);
    pattern.write(buffer.data(), 5, count);
    EXPECT_EQ(pattern.count_wrong(buffer.data(), 5, count), 0u);
    EXPECT_GT(pattern.count_wrong(buffer.data(), 6, count), count / 2) << "one place too far";
    for (const std::size_t wrong : {std::size_t{0}, Pattern::period, count - 1})
      buffer[wrong * element] ^= std::byte{1};
    EXPECT_EQ(pattern.count_wrong(buffer.data(), 5, count), 3u);
  }
}

// A result that the type cannot hold would depend on the order of summation.
TEST(PerfValues, HaveResultsThatTheTypesHold) {
  for (const int ranks : {1, 2, 3, 8, 64})
    for (const ReduceOp op : all_ops)
      for (std::size_t i = 0; i < 100; ++i) {
        if (op == ReduceOp::avg) continue;  // rounds, once
        const auto half = static_cast<float>(reduced_value({DataType::f16, op, true, ranks}, i));
        EXPECT_EQ(to_f32(to_f16(half)), half) << name_of(op) << ranks;
        const auto bf16 = static_cast<float>(reduced_value({DataType::bf16, op, true, ranks}, i));
        EXPECT_EQ(to_f32(to_bf16(bf16)), bf16) << name_of(op) << ranks;
      }
}

TEST(PerfValues, DifferBetweenRanks) {
  const Numbers sums{DataType::f32, ReduceOp::sum, true, 4}, moves{DataType::u8, ReduceOp::sum, false, 4};
  for (const Numbers& numbers : {sums, moves}) {
    int same = 0;
    for (std::size_t i = 0; i < 1000; ++i) same += input_value(numbers, 0, i) == input_value(numbers, 1, i);
    EXPECT_LT(same, 200);
  }
}

TEST(PerfOptions, ReadsSizes) {
  EXPECT_EQ(parse_bytes("8"), 8u);
  EXPECT_EQ(parse_bytes("64K"), 65536u);
  EXPECT_EQ(parse_bytes("32m"), 32 * mib);
  EXPECT_EQ(parse_bytes("1G"), 1024 * mib);
  for (const char* bad : {"", "K", "-1", "8X", "1.5M", "99999999999G", "8 "})
    EXPECT_THROW(parse_bytes(bad), Error) << bad;
}

TEST(PerfOptions, StepsThroughSizes) {
  PerfOptions options;
  EXPECT_EQ(sizes_of(options), std::vector<std::uint64_t>{32 * mib});
  options.least = 8;
  options.most = 100;
  options.factor = 4;
  EXPECT_EQ(sizes_of(options), (std::vector<std::uint64_t>{8, 32}));
  options.factor = 1;
  options.step = 46;
  EXPECT_EQ(sizes_of(options), (std::vector<std::uint64_t>{8, 54, 100}));
  options.step = 0;
  EXPECT_THROW(sizes_of(options), Error);
  options.most = 4;
  EXPECT_THROW(sizes_of(options), Error);
}

// ---- the programs ----

Outcome run_command(const std::string& command) {
  const TemporaryFolder folder;
  const int status = std::system(
      fmt::format("{} >{} 2>{}", command, (folder / "out").string(), (folder / "err").string()).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, test::content_of(folder / "out"),
          test::content_of(folder / "err")};
}

Outcome run_perf(const std::string& collective, const std::string& arguments) {
  return run_command("\"$PERF_FOLDER/" + collective + "_perf\" " + arguments);
}

json json_of(const std::string& collective, const std::string& arguments) {
  const Outcome outcome = run_perf(collective, arguments + " -n 3 -w 1 -J -");
  EXPECT_EQ(outcome.status, 0) << collective << " " << arguments << ": " << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

void expect_side(const json& side, const std::string& what) {
  EXPECT_EQ(side["wrong"], 0) << what;
  EXPECT_GT(side["time_us"], 0.0) << what;
  EXPECT_LE(side["time_us"], side["p99_us"]) << what;
  EXPECT_GT(side["first_us"], 0.0) << what;
}

constexpr const char* collectives[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                       "alltoall",   "sendrecv",   "gather",         "scatter"};

TEST(PerfProgram, EveryCollectiveIsRightInAndOutOfPlace) {
  for (const std::string collective : collectives) {
    const json report = json_of(collective, "--ranks 3 -b 4 -e 300000 -f 60");
    ASSERT_EQ(report["results"].size(), 3u) << collective;
    EXPECT_EQ(report["wrong"], 0) << collective;
    const bool in_place = collective != "alltoall" && collective != "sendrecv";
    for (const json& row : report["results"]) {
      expect_side(row["out_of_place"], collective);
      EXPECT_EQ(row["in_place"].is_null(), !in_place) << collective;
      if (in_place) expect_side(row["in_place"], collective + " in place");
    }
  }
}

TEST(PerfProgram, ShowsTheBytesThatTheLedgerMeasured) {
  const auto sent = [](const char* collective) {
    const json report = json_of(collective, "--ranks 3 -b 12000 -m 2");
    return report["results"][0]["out_of_place"]["sent_bytes"].get<double>();
  };
  EXPECT_EQ(sent("all_reduce"), 16000);
  EXPECT_EQ(sent("all_gather"), 8000);
  EXPECT_EQ(sent("reduce_scatter"), 8000);
  EXPECT_EQ(sent("alltoall"), 8000);
  EXPECT_EQ(sent("sendrecv"), 12000);
  EXPECT_EQ(sent("gather"), 4000);
  EXPECT_EQ(sent("scatter"), 8000);
}

TEST(PerfProgram, DoesEveryTypeAndOperator) {
  const json report = json_of("all_reduce", "--ranks 2 -b 10001 -d all -o all -c 2");
  EXPECT_EQ(report["results"].size(), 60u);
  for (const json& row : report["results"])
    for (const char* side : {"out_of_place", "in_place"})
      EXPECT_EQ(row[side]["wrong"], 0) << row["type"] << row["redop"];
}

TEST(PerfProgram, MeasuresCleanInputsStreamsRootsAndRing) {
  json_of("all_reduce", "--ranks 2 -b 64K --clean -m 3");
  json_of("all_gather", "--ranks 2 -b 64K -z 0 -m 3");
  json_of("broadcast", "--ranks 3 -b 64K -r 2 -d double");
  json_of("reduce_scatter", "--ranks 3 -b 64K --algo ring --out-of-place-only");
}

TEST(PerfProgram, OneRankHasNoBusBandwidth) {
  for (const std::string collective : collectives) {
    const json report = json_of(collective, "--ranks 1 -b 64K");
    EXPECT_EQ(report["results"][0]["out_of_place"]["busbw"], 0.0) << collective;
  }
}

TEST(PerfProgram, PrintsTheColumnsOfNcclTests) {
  const Outcome outcome = run_perf("reduce", "--ranks 2 -b 1K -n 2");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* column : {"size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
                             "out-of-place", "in-place", "(GB/s)", "1024", "256", "float", "sum"})
    EXPECT_NE(outcome.out.find(column), std::string::npos) << column;
  EXPECT_EQ(outcome.out.find("nan"), std::string::npos);
}

TEST(PerfProgram, DeviceMemoryWithoutADeviceIsSkipped) {
  const Outcome outcome = run_perf("all_reduce", "--memory device -b 1K -n 2");
  if (outcome.status == 0) GTEST_SKIP() << "a GPU is here";
  EXPECT_EQ(outcome.status, 77);
  EXPECT_NE(outcome.err.find("skipped: --memory device: "), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

// Over the tests' own driver, on windows of devices or by the host.
TEST(PerfProgram, MeasuresDeviceMemory) {
  if (std::getenv("STAND_IN_DRIVER") == nullptr) GTEST_SKIP() << "built without CUDA's header";
  for (const std::string collective : collectives) {
    const Outcome outcome =
        run_command("LD_LIBRARY_PATH=\"$STAND_IN_DRIVER\" \"$PERF_FOLDER/" + collective +
                    "_perf\" --memory device --ranks 3 -b 12 -e 120000 -f 100 -n 3 -w 1 -J -");
    ASSERT_EQ(outcome.status, 0) << collective << outcome.err;
    const json report = json::parse(outcome.out, nullptr, false);
    EXPECT_EQ(report["memory"], "device");
    for (const json& row : report["results"]) expect_side(row["out_of_place"], collective);
  }
}

// Rondo's own library of NCCL's functions in the place of NCCL: two libraries in each process, over the
// tests' own driver with its four GPUs.
std::string against_nccl(const std::string& collective, const std::string& arguments) {
  return "LD_LIBRARY_PATH=\"$STAND_IN_DRIVER\" \"$PERF_FOLDER/" + collective +
         "_perf\" --memory device --against \"$NCCL_LIBRARY\" -n 3 -w 1 " + arguments;
}
bool has_nccl() {
  return std::getenv("NCCL_LIBRARY") != nullptr && std::getenv("STAND_IN_DRIVER") != nullptr;
}

void expect_compared(const json& side, const std::string& what) {
  expect_side(side, what);
  EXPECT_EQ(side["nccl"]["wrong"], 0) << what;
  EXPECT_GT(side["nccl"]["time_us"], 0.0) << what;
  EXPECT_GT(side["nccl"]["first_us"], 0.0) << what;
  EXPECT_GT(side["ratio"], 0.0) << what;
}

TEST(PerfProgram, ComparesEveryCollectiveWithNccl) {
  if (!has_nccl()) GTEST_SKIP() << "built without CUDA's header, or without nccl.h";
  for (const std::string collective : collectives) {
    const Outcome outcome = run_command(against_nccl(collective, "--ranks 3 -b 12 -e 120000 -f 100 -J -"));
    ASSERT_EQ(outcome.status, 0) << collective << outcome.err;
    const json report = json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(report["against"]["left_out"].is_null());
    EXPECT_EQ(report["against"]["wrong"], 0);
    EXPECT_NE(report["against"]["library"].get<std::string>().find("librondo-nccl"), std::string::npos);
    for (const json& row : report["results"]) {
      expect_compared(row["out_of_place"], collective);
      if (!row["in_place"].is_null()) expect_compared(row["in_place"], collective + " in place");
    }
  }
}

TEST(PerfProgram, ComparesTypesOperatorsAndOneRankWithNccl) {
  if (!has_nccl()) GTEST_SKIP() << "built without CUDA's header, or without nccl.h";
  for (const char* arguments :
       {"--ranks 2 -b 10001 -d half -o all -J -", "--ranks 1 -b 4096 -m 3 --clean -J -"}) {
    const Outcome outcome = run_command(against_nccl("all_reduce", arguments));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const json report = json::parse(outcome.out, nullptr, false);
    for (const json& row : report["results"]) expect_compared(row["out_of_place"], row["redop"]);
  }
}

// What Rondo sends is its own: calls of NCCL's do not count.
TEST(PerfProgram, ComparedRondoSendsWhatItSendsAlone) {
  if (!has_nccl()) GTEST_SKIP() << "built without CUDA's header, or without nccl.h";
  const Outcome outcome = run_command(against_nccl("all_reduce", "--ranks 3 -b 12000 -J -"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json report = json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(report["results"][0]["out_of_place"]["sent_bytes"], 16000);
}

TEST(PerfProgram, PrintsTheColumnsOfBoth) {
  if (!has_nccl()) GTEST_SKIP() << "built without CUDA's header, or without nccl.h";
  const Outcome outcome = run_command(against_nccl("all_gather", "--ranks 2 -b 1K"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const char* part :
       {"# against NCCL 2.", "Rondo", "NCCL", "ratio", "place", "out-of-place", "in-place"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << outcome.out;
  EXPECT_EQ(outcome.out.find("left out"), std::string::npos);
}

TEST(PerfProgram, NcclIsLeftOutWhereRanksShareAGpu) {
  if (!has_nccl()) GTEST_SKIP() << "built without CUDA's header, or without nccl.h";
  const Outcome outcome =
      run_command("CUDA_VISIBLE_DEVICES=0 " + against_nccl("all_reduce", "--ranks 2 -b 1K -J -"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json report = json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(report["against"]["left_out"], "ranks 0 and 1 share a GPU, which NCCL refuses");
  expect_side(report["results"][0]["out_of_place"], "alone");
  EXPECT_FALSE(report["results"][0]["out_of_place"].contains("nccl"));
  const Outcome text = run_command("CUDA_VISIBLE_DEVICES=0 " + against_nccl("all_reduce", "--ranks 2 -b 1K"));
  EXPECT_NE(text.out.find("left out: ranks 0 and 1 share a GPU"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("p99"), std::string::npos) << text.out;
}

TEST(PerfProgram, RefusesWhatIsNoNcclInOneLine) {
  const TemporaryFolder folder;
  std::vector<std::pair<std::string, std::string>> refused{
      {"--against nccl", "expected --memory device"},
      {"--memory device --against /nowhere/libnccl.so.2", "it cannot be loaded: /nowhere/libnccl.so.2"},
      {"--memory device --against libm.so.6", "it has no ncclGetVersion"}};
  if (std::getenv("OLD_NCCL") != nullptr) {
    refused.emplace_back("--memory device --against \"$OLD_NCCL\"",
                         "it is NCCL 2.3.4: expected 2.13.0 or newer");
    refused.emplace_back("--memory device --against \"$FAULTY_NCCL\"",
                         "it has no ncclAlltoAll, and says that it is NCCL 2.27.3");
  }
  for (const auto& [arguments, message] : refused) {
    const Outcome outcome = run_perf("alltoall", arguments + " -b 1K -n 2");
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_NE(outcome.err.find("alltoall_perf: --against "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
  }
}

// NCCL has no deadlines: ranks that wait in it for one that has failed are ended.
TEST(PerfProgram, ARankThatNcclRefusesEndsAll) {
  if (std::getenv("FAULTY_NCCL") == nullptr || std::getenv("STAND_IN_DRIVER") == nullptr)
    GTEST_SKIP() << "built without CUDA's header, or without a C compiler";
  const Outcome outcome = run_command(
      "LD_LIBRARY_PATH=\"$STAND_IN_DRIVER\" \"$PERF_FOLDER/all_reduce_perf\" --memory device"
      " --against \"$FAULTY_NCCL\" --ranks 3 -b 1K -n 2");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("rank 0: NCCL: out of order: as the test wants it"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("some ranks had not ended"), std::string::npos) << outcome.err;
}

TEST(PerfProgram, IsARankOfALauncher) {
  const Outcome outcome = run_command(
      "\"$RONDO_PROGRAM\" run -n 3 --no-tags -- \"$PERF_FOLDER/all_reduce_perf\" -b 1K -n 2 -J -");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out, nullptr, false)["ranks"], 3);
}

TEST(PerfProgram, RefusesBadUsageInOneLine) {
  for (const char* arguments :
       {"-b 8X", "-b 64 -e 8", "-d floaty", "-o mean", "--ranks 0", "--memory disk"}) {
    const Outcome outcome = run_perf("all_reduce", arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_NE(outcome.err.find("all_reduce_perf: "), std::string::npos) << arguments << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
  }
}

TEST(PerfProgram, CompareRunsRondoBesideTheMemoryLimit) {
  const TemporaryFolder folder;
  const Outcome outcome = run_command(
      "python3 \"$PERF_COMPARE\" --build \"$PERF_FOLDER/..\" --peers none --ranks 2 --sizes 4K,64K --rounds 1"
      " --plot " +
      (folder / "plot").string() + " --json " + (folder / "times.json").string());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("Rondo, malloc"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("memory limit"), std::string::npos) << outcome.out;
  EXPECT_NE(test::content_of(folder / "plot-2.svg").find("all-gather, 2 ranks"), std::string::npos);
  const json times = json::parse(test::content_of(folder / "times.json"), nullptr, false);
  EXPECT_TRUE(times["failed"].empty()) << times["failed"];
  EXPECT_GE(times["results"].size(), 12u);
}

// Both with a GPU for each rank, and Rondo alone where ranks share one.
TEST(PerfProgram, CompareRunsRondoBesideNccl) {
  if (!has_nccl()) GTEST_SKIP() << "built without CUDA's header, or without nccl.h";
  const TemporaryFolder folder;
  const Outcome outcome = run_command(
      "LD_LIBRARY_PATH=\"$STAND_IN_DRIVER\" python3 \"$PERF_COMPARE\" --build \"$PERF_FOLDER/..\" --memory "
      "device"
      " --nccl-library \"$NCCL_LIBRARY\" --ranks 2,5 --sizes 64,4K --collectives all_reduce --rounds 1 "
      "--plot " +
      (folder / "plot").string() + " --json " + (folder / "times.json").string());
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("Rondo, GPU memory  NCCL  peer / device"), std::string::npos) << outcome.out;
  EXPECT_NE(test::content_of(folder / "plot-2.svg").find(">NCCL<"), std::string::npos);
  const json times = json::parse(test::content_of(folder / "times.json"), nullptr, false);
  EXPECT_EQ(times["memory"], "device");
  EXPECT_EQ(times["results"].size(), 6u);
  ASSERT_EQ(times["failed"].size(), 1u);
  EXPECT_EQ(times["failed"][0]["reason"], "ranks 0 and 4 share a GPU, which NCCL refuses");
}

TEST(PerfProgram, CompareTellsWhyThereIsNoNccl) {
  const std::string compare =
      "python3 \"$PERF_COMPARE\" --build \"$PERF_FOLDER/..\" --plot \"\" --sizes 64 --rounds 1"
      " --collectives all_reduce ";
  const Outcome on_host = run_command(compare + "--peers nccl --ranks 2");
  EXPECT_EQ(on_host.status, 0) << on_host.err;
  EXPECT_NE(on_host.err.find("without nccl: it takes no memory but a GPU's"), std::string::npos)
      << on_host.err;
  const Outcome without_gpu = run_command(compare + "--memory device");
  if (without_gpu.status == 0) GTEST_SKIP() << "a GPU is here";
  EXPECT_NE(without_gpu.err.find("without rondo-device: all_reduce_perf: skipped: --memory device: "),
            std::string::npos)
      << without_gpu.err;
  if (std::getenv("OLD_NCCL") == nullptr || std::getenv("STAND_IN_DRIVER") == nullptr) return;
  const Outcome old = run_command("LD_LIBRARY_PATH=\"$STAND_IN_DRIVER\" " + compare +
                                  "--memory device --nccl-library \"$OLD_NCCL\"");
  EXPECT_EQ(old.status, 0) << old.err;
  EXPECT_NE(old.err.find("it is NCCL 2.3.4"), std::string::npos) << old.err;
}

TEST(PerfProgram, CompareRunsBetweenHostsBesideWhatTcpCarries) {
  const TemporaryFolder folder;
  const Outcome outcome = run_command(
      "python3 \"$PERF_COMPARE\" --build \"$PERF_FOLDER/..\" --peers none --hosts 2 --rate 1gbit --sizes "
      "64,1M"
      " --collectives all_reduce --rounds 1 --plot " +
      (folder / "plot").string() + " --json " + (folder / "times.json").string());
  for (const char* obstacle : {"is not allowed here", "here (Debian: "})
    if (outcome.err.find(obstacle) != std::string::npos) GTEST_SKIP() << outcome.err;
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("% of limit"), std::string::npos) << outcome.out;
  EXPECT_NE(test::content_of(folder / "plot-2x1.svg").find("all-reduce, 2 hosts x 1, 1gbit"),
            std::string::npos);
  const json times = json::parse(test::content_of(folder / "times.json"), nullptr, false);
  EXPECT_TRUE(times["failed"].empty()) << times["failed"];
  EXPECT_EQ(times["results"].size(), 3u);  // two sizes, and the limit of one
  // A link of 125 MB/s: neither more, nor, on a busy machine, next to nothing.
  EXPECT_LT(times["goodput_bytes_a_second"][0].get<double>(), 125e6);
  EXPECT_GT(times["goodput_bytes_a_second"][0].get<double>(), 20e6);
}

}  // namespace
}  // namespace rondo
