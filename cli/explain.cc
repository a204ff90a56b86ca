// `rondo explain`: what a collective or a training step does, step by step, without running it.
#include "cli/explain.h"

#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "cli/bytes.h"
#include "cli/commands.h"
#include "src/error.h"

namespace rondo {
namespace {

constexpr const char* about =
    "The numbers of a collective are drawn for up to 9 ranks. COUNT is counted as the call takes it: "
    "elements of\n"
    "the buffer for all-reduce, broadcast and reduce, of one rank's share for all-gather and "
    "reduce-scatter.\n"
    "\n"
    "Examples:\n"
    "  rondo explain all-reduce -n 4\n"
    "  rondo explain reduce-scatter -n 3 --count 1000 --type bf16\n"
    "  rondo explain all-gather -n 2 --size 1M --buffers rondo\n"
    "  rondo explain broadcast -n 8 --root 2 --algo direct --json\n"
    "  rondo explain fsdp -n 2 --layers 2\n"
    "  rondo explain fsdp -n 8 --config Qwen3-0.6B/config.json --layers 28 --type bf16";

const std::map<std::string, CallKind> collectives{{"all-reduce", CallKind::all_reduce},
                                                  {"all-gather", CallKind::all_gather},
                                                  {"reduce-scatter", CallKind::reduce_scatter},
                                                  {"broadcast", CallKind::broadcast},
                                                  {"reduce", CallKind::reduce}};

struct Arguments {
  std::string what, type, algorithm = "auto", buffers = "malloc", config;
  int ranks = 4, root = 0, layers = 2;
  std::size_t count = 1 << 20, size = 0;
  bool by_size = false;
  bool json = false;
};

std::vector<std::string> things() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : collectives) names.push_back(name);
  names.emplace_back("fsdp");
  return names;
}

std::vector<std::string> types() {
  std::vector<std::string> names;
  for (int type = 0; type < data_type_count; ++type) names.emplace_back(name_of(static_cast<DataType>(type)));
  return names;
}

DataType type_called(const std::string& name) {
  for (int type = 0; type < data_type_count; ++type)
    if (name == name_of(static_cast<DataType>(type))) return static_cast<DataType>(type);
  fail(ErrorKind::invalid_argument, "--type {}: expected one of {}", name, fmt::join(types(), ", "));
}

// To our names: "AllReduce", "allreduce" and "all_reduce" are what other libraries call it.
std::string rename(std::string& name) {
  const auto bare = [](std::string text) {
    std::erase_if(text, [](char c) { return c == '-' || c == '_'; });
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  for (const std::string& known : things())
    if (bare(name) == bare(known)) name = known;
  return "";  // no complaint
}

// An option of the one kind of thing, given for the other, would be ignored in silence.
void refuse_foreign_options(const CLI::App& command, const std::string& what) {
  const bool fsdp = what == "fsdp";
  const std::vector<std::string> foreign =
      fsdp ? std::vector<std::string>{"--count", "--size", "--buffers", "--algo", "--root"}
           : std::vector<std::string>{"--layers", "--config"};
  for (const std::string& option : foreign)
    if (command.count(option) > 0)
      fail(ErrorKind::invalid_argument, "{} is for {}, not for {}", option, fsdp ? "collectives" : "fsdp",
           what);
  if (command.count("--root") > 0 && what != "broadcast" && what != "reduce")
    fail(ErrorKind::invalid_argument, "--root is for broadcast and reduce, not for {}", what);
}

// A size is the whole buffer's, as the perf programs take it; a count is the call's.
std::size_t count_from_size(const Arguments& arguments, DataType type) {
  const CallKind kind = collectives.at(arguments.what);
  const bool shares = kind == CallKind::all_gather || kind == CallKind::reduce_scatter;
  const std::size_t unit = size_of(type) * (shares ? static_cast<std::size_t>(arguments.ranks) : 1);
  if (arguments.size % unit != 0)
    fail(ErrorKind::invalid_argument, "--size {}: expected a multiple of {} bytes: whole {}{}",
         arguments.size, unit, name_of(type), shares ? " for each rank" : "");
  return arguments.size / unit;
}

void explain_it(const Arguments& arguments) {
  const std::string& type = arguments.type;
  if (arguments.what == "fsdp") {
    const FsdpQuestion question{arguments.ranks, arguments.layers, type_called(type.empty() ? "f16" : type),
                                arguments.config};
    return arguments.json ? explain_fsdp_json(question) : explain_fsdp(question);
  }
  if (arguments.root >= arguments.ranks)
    fail(ErrorKind::invalid_argument, "--root {}: expected a rank from 0 to {}", arguments.root,
         arguments.ranks - 1);
  const DataType element = type_called(type.empty() ? "f32" : type);
  const CollectiveQuestion question{collectives.at(arguments.what), arguments.ranks,
                                    arguments.by_size ? count_from_size(arguments, element) : arguments.count,
                                    element, parse_algorithm("--algo", arguments.algorithm), arguments.root,
                                    // What device memory is copied to is such memory.
                                    arguments.buffers == "malloc" ? BufferKind::malloc : BufferKind::rondo,
                                    arguments.buffers == "device", Settings::from_environment()};
  return arguments.json ? explain_collective_json(question) : explain_collective(question);
}

}  // namespace

void add_explain_command(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("explain", "Show what a collective or a training step moves, step by step");
  const auto add = [&](const char* name, auto& value, const char* type, const char* help) {
    return command->add_option(name, value, help)->type_name(type);
  };
  // Without its description in the help, which says it in words.
  const auto quiet = [](CLI::Validator validator) { return validator.description(""); };
  const char* collective = "For a collective";
  const char* fsdp = "For fsdp";

  add("what", arguments->what, "WHAT", "all-reduce, all-gather, reduce-scatter, broadcast, reduce or fsdp")
      ->required()
      ->transform(CLI::Validator(rename, ""))
      ->check(quiet(CLI::IsMember(things())));
  add("-n,--ranks", arguments->ranks, "N", "Number of ranks [4]")->check(quiet(CLI::Range(1, 4096)));
  add("--type", arguments->type, "TYPE", "Element type, such as bf16 [f32; fsdp: f16]")
      ->check(quiet(CLI::IsMember(types())));
  command->add_flag("--json", arguments->json, "Print JSON");
  add("--count", arguments->count, "COUNT", "Elements of the call [1048576]")
      ->check(quiet(CLI::Range(std::size_t{0}, std::size_t{1} << 50)))
      ->group(collective);
  const auto by_size = [arguments](const std::string& text) {
    arguments->size = parse_bytes(text);
    arguments->by_size = true;
  };
  command
      ->add_option_function<std::string>("--size", by_size, "Bytes of the whole buffer instead, such as 64K")
      ->type_name("SIZE")
      ->excludes("--count")
      ->group(collective);
  add("--buffers", arguments->buffers, "KIND",
      "Where buffers come from: malloc, rondo for rondoMemAlloc, or device for a GPU's memory [malloc]")
      ->check(quiet(CLI::IsMember({"malloc", "rondo", "device"})))
      ->group(collective);
  add("--algo", arguments->algorithm, "ALGO", "What to draw: ring or direct [ring]")
      ->check(quiet(CLI::IsMember({"auto", "ring", "direct"})))
      ->group(collective);
  add("--root", arguments->root, "RANK", "Root of broadcast and reduce [0]")
      ->check(quiet(CLI::NonNegativeNumber))
      ->group(collective);
  add("--layers", arguments->layers, "LAYERS", "Layers of the model [2]")
      ->check(quiet(CLI::Range(1, 1000)))
      ->group(fsdp);
  add("--config", arguments->config, "FILE",
      "A Qwen3 config.json [hidden 512, 8/4 heads of 64, ffn 1024, vocabulary 512]")
      ->group(fsdp);
  command->footer(about);
  command->callback([command, arguments] {
    refuse_foreign_options(*command, arguments->what);
    explain_it(*arguments);
  });
}

}  // namespace rondo
