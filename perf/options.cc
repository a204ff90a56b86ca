#include "perf/options.h"

#include <CLI/CLI.hpp>

#include "src/error.h"

namespace rondo {
namespace {

template <typename T>
std::vector<T> parse_choice(const std::string& flag, const std::string& text, int count) {
  std::vector<T> all;
  std::string known;
  for (int i = 0; i < count; ++i) {
    const T one = static_cast<T>(i);
    if (text == "all" || text == perf_name_of(one) || text == name_of(one)) all.push_back(one);
    known += std::string(perf_name_of(one)) + ", ";
  }
  if (all.empty()) fail(ErrorKind::invalid_argument, "{} {}: expected {}or all", flag, text, known);
  return all;
}

void add_sizes(CLI::App& app, PerfOptions& options) {
  const auto bytes = [&](const char* name, std::uint64_t& value, const char* what) {
    app.add_option_function<std::string>(
           name, [&value](const std::string& text) { value = parse_bytes(text); }, what)
        ->type_name("SIZE")
        ->group("Sizes");
  };
  bytes("-b,--minbytes", options.least, "The least size (32M)");
  bytes("-e,--maxbytes", options.most, "The largest size (as -b)");
  bytes("-i,--stepbytes", options.step, "What is added for the next size (1M)");
  app.add_option("-f,--stepfactor", options.factor, "What the size is multiplied by instead")
      ->check(CLI::Range(1, 1 << 20))
      ->group("Sizes");
}

void add_calls(CLI::App& app, PerfOptions& options) {
  const char* group = "Calls";
  app.add_option("-n,--iters", options.iterations, "Timed iterations (more for small sizes: 20 to 1000)")
      ->check(CLI::Range(1, 10'000'000))
      ->group(group);
  app.add_option("-w,--warmup_iters", options.warmup, "Calls before them")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str()
      ->group(group);
  app.add_option("-m,--agg_iters", options.calls, "Calls in an iteration, whose time is shared among them")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->group(group);
  app.add_option("-c,--check", options.checks, "How often every element of the result is checked; 0: never")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str()
      ->group(group);
  app.add_option("-z,--blocking", options.blocking,
                 "1: a call returns when it is done; 0: the calls of an iteration go to a stream")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--clean", options.clean,
               "Repeat on untouched inputs, back to back. Without it the owner of an input writes one word "
               "in each of\n"
               "its cache lines before every iteration, untimed, as a program that uses its buffers does");
  app.add_option("-T,--timeout", options.timeout, "Deadline of each call, in seconds; 0: never")
      ->check(CLI::Range(0.0, 1e6))
      ->group(group);
}

void add_types(CLI::App& app, PerfOptions& options, const Collective& collective) {
  options.types = {DataType::f32};
  options.ops = {ReduceOp::sum};
  app.add_option_function<std::string>(
         "-d,--datatype",
         [&options](const std::string& text) {
           options.types = parse_choice<DataType>("-d", text, data_type_count);
         },
         "int8 to uint64, half, float, double, bfloat16, or all (float)")
      ->type_name("TYPE");
  if (collective.reduces)
    app.add_option_function<std::string>(
           "-o,--op",
           [&options](const std::string& text) {
             options.ops = parse_choice<ReduceOp>("-o", text, reduce_op_count);
           },
           "sum, prod, max, min, avg, mulsum, or all (sum)")
        ->type_name("OP");
  if (collective.rooted) app.add_option("-r,--root", options.root, "The root")->check(CLI::NonNegativeNumber);
}

constexpr const char* memory_kinds = "malloc, rondo (rondoMemAlloc) or device (a GPU's)";

void take_memory(PerfOptions& options, const std::string& text) {
  options.on_device = text == "device";
  options.memory = text == name_of(BufferKind::rondo) ? BufferKind::rondo : BufferKind::malloc;
  if (text != options.memory_name())
    fail(ErrorKind::invalid_argument, "--memory {}: expected {}", text, memory_kinds);
}

}  // namespace

void add_perf_options(CLI::App& app, PerfOptions& options, const Collective& collective) {
  app.add_option("-g,--ranks", options.ranks, "Local ranks, which this program starts (2)")
      ->check(CLI::Range(1, 512).description(""))
      ->type_name("N");
  app.add_flag("--bind", options.bind, "Keep each local rank on a CPU of its own");
  add_sizes(app, options);
  add_calls(app, options);
  add_types(app, options, collective);
  app.add_option_function<std::string>(
         "--memory", [&options](const std::string& text) { take_memory(options, text); },
         std::string("Where buffers come from: ") + memory_kinds)
      ->type_name("KIND");
  app.add_option("--against", options.against,
                 "Measure NCCL beside Rondo, on the same buffers, its calls and Rondo's in turn (--memory "
                 "device): nccl, which\n"
                 "is libnccl.so.2 where the loader finds it, or a path")
      ->type_name("NCCL");
  app.add_flag("!--out-of-place-only", options.in_place, "Leave out the measurement in place");
  app.add_option("--algo", options.algorithm, "auto, ring, direct, one-shot, doubling or tree")
      ->check(CLI::IsMember({"auto", "ring", "direct", "one-shot", "doubling", "tree"}))
      ->capture_default_str();
  app.add_option("-J,--output_file", options.json, "Write the results as JSON to a file, or to stdout: -")
      ->type_name("FILE");
}

std::vector<std::uint64_t> sizes_of(const PerfOptions& options) {
  const std::uint64_t most = options.most == 0 ? options.least : options.most;
  if (options.least > most)
    fail(ErrorKind::invalid_argument, "-b {} -e {}: expected -e to be no less than -b", options.least, most);
  if (options.least < most && options.factor == 1 && options.step == 0)
    fail(ErrorKind::invalid_argument, "-i 0: expected a step, or a factor (-f)");
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = options.least; size <= most;) {
    sizes.push_back(size);
    if (size == most) break;
    size = options.factor > 1 ? std::max(size, std::uint64_t{1}) * options.factor : size + options.step;
  }
  return sizes;
}

int iterations_for(const PerfOptions& options, std::uint64_t bytes) {
  if (options.iterations) return *options.iterations;
  if (bytes <= 16 << 10) return 1000;
  if (bytes <= 256 << 10) return 300;
  return bytes <= 4 << 20 ? 60 : 20;
}

const char* perf_name_of(DataType type) {
  switch (type) {
    case DataType::i8:
      return "int8";
    case DataType::u8:
      return "uint8";
    case DataType::i32:
      return "int32";
    case DataType::u32:
      return "uint32";
    case DataType::i64:
      return "int64";
    case DataType::u64:
      return "uint64";
    case DataType::f16:
      return "half";
    case DataType::f32:
      return "float";
    case DataType::f64:
      return "double";
    case DataType::bf16:
      return "bfloat16";
  }
  return "?";
}

const char* perf_name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::prod:
      return "prod";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
    case ReduceOp::avg:
      return "avg";
    case ReduceOp::premul_sum:
      return "mulsum";
  }
  return "?";
}

}  // namespace rondo
