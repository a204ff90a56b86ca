// The `rondo` program, run as a user runs it: TESTED_PROGRAM and WORLD_PROGRAM name what the build made.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "cli/table.h"
#include "src/fd.h"
#include "src/socket.h"
#include "src/tune_file.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

std::string path_from(const char* variable) {
  const char* path = std::getenv(variable);
  return path == nullptr ? std::string() : path;
}

const std::string& world_program() {
  static const std::string path = path_from("WORLD_PROGRAM");
  return path;
}

struct Result {
  int status;  // as a shell tells it
  std::string out, err;
};

// A running `rondo`. Its output goes to memory, so that it never waits for us.
class Program {
 public:
  explicit Program(Words words, std::map<std::string, std::string> environment = {}, bool close_input = false)
      : out_(::memfd_create("out", MFD_CLOEXEC)), err_(::memfd_create("err", MFD_CLOEXEC)) {
    words.insert(words.begin(), path_from("TESTED_PROGRAM"));
    pid_ = ::fork();
    if (pid_ == 0) become(words, environment, close_input);
  }
  ~Program() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const { return text_of(out_); }

  // Waits until so many lines of stdout hold `text`.
  ::testing::AssertionResult shows(const std::string& text, int lines) const {
    for (const auto end = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < end;) {
      const std::string now = out();
      int count = 0;
      for (std::size_t at = 0; (at = now.find(text, at)) != std::string::npos; at += text.size()) ++count;
      if (count >= lines) return ::testing::AssertionSuccess();
      std::this_thread::sleep_for(10ms);
    }
    return ::testing::AssertionFailure() << "\"" << text << "\" did not come " << lines << " times:\n"
                                         << out();
  }

  Result wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of(out_), text_of(err_)};
  }

 private:
  [[noreturn]] void become(const Words& words, const std::map<std::string, std::string>& environment,
                           bool close_input) const {
    if (close_input)
      ::close(STDIN_FILENO);
    else
      ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(out_.get(), STDOUT_FILENO);
    ::dup2(err_.get(), STDERR_FILENO);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    // Whoever runs the tests may ignore some signals (nohup, jobs of a script), and what is ignored stays so.
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) ::signal(signal, SIG_DFL);
    ::execv(arguments[0], arguments.data());
    ::_exit(99);
  }

  static std::string text_of(const Fd& memory) {
    std::string text(static_cast<std::size_t>(::lseek(memory.get(), 0, SEEK_END)), '\0');
    const ssize_t got = ::pread(memory.get(), text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }

  // Each on its own: the offset that the child writes at is the one that we would move.
  Fd out_, err_;
  pid_t pid_ = -1;
};

Result rondo(Words words, std::map<std::string, std::string> environment = {}, bool close_input = false) {
  return Program(std::move(words), std::move(environment), close_input).wait();
}

Words run_words(int ranks, Words program) {
  Words words{"run", "-n", std::to_string(ranks), "--"};
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

Words shell(int ranks, const std::string& script) { return run_words(ranks, {"sh", "-c", script}); }

std::multiset<std::string> lines_of(const std::string& text) {
  std::multiset<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

// A process that is gone, or a zombie that nobody has reaped yet.
bool has_ended(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto bracket = text.rfind(')');
  return bracket == std::string::npos || text.at(bracket + 2) == 'Z';
}

::testing::AssertionResult ends_soon(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    if (has_ended(pid)) return ::testing::AssertionSuccess();
    std::this_thread::sleep_for(10ms);
  }
  return ::testing::AssertionFailure() << "process " << pid << " still runs";
}

// The numbers that ranks have printed after `label`.
std::vector<int> numbers_after(const std::string& label, const std::string& text) {
  std::vector<int> numbers;
  for (std::size_t at = 0; (at = text.find(label, at)) != std::string::npos; at += label.size())
    numbers.push_back(std::stoi(text.substr(at + label.size())));
  return numbers;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << "in:\n" << (text)

// ---- The program ----

TEST(Help, OfEveryCommandHasExamples) {
  for (const Words& words : {Words{}, Words{"run"}, Words{"info"}, Words{"explain"}, Words{"ledger"},
                             Words{"fsdp"}, Words{"tp"}}) {
    Words asked = words;
    asked.emplace_back("--help");
    const Result result = rondo(asked);
    EXPECT_EQ(result.status, 0);
    EXPECT_HAS(result.out, "Examples:");
    EXPECT_EQ(result.err, "");
  }
}

TEST(Help, VersionIsTold) {
  const Result result = rondo({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out.rfind("rondo ", 0), 0u) << result.out;
}

TEST(Usage, ErrorsExitWithTwoAndSayWhatIsWrong) {
  const std::vector<std::pair<Words, std::string>> cases{
      {{"nonsense"}, "nonsense"},
      {{"run", "-n", "0", "--", "true"}, "0 not in range 1 to 4096"},
      {{"run", "-n", "four", "--", "true"}, "four"},
      {{"run", "-n", "2"}, "no program given"},
      {{"run", "--", "true"}, "--ranks is required"},
      {{"explain", "nothing"}, "nothing"},
      {{"explain", "all-reduce", "--count", "-1"}, "-1 not in range"},
      {{"explain", "all-reduce", "--root", "1"}, "--root is for broadcast and reduce"},
      {{"explain", "broadcast", "-n", "4", "--root", "4"}, "expected a rank from 0 to 3"},
      {{"explain", "all-reduce", "--layers", "2"}, "--layers is for fsdp"},
      {{"explain", "fsdp", "--type", "i8"}, "f16, bf16, f32 or f64"}};
  for (const auto& [words, text] : cases) {
    const Result result = rondo(words);
    EXPECT_EQ(result.status, 2) << text;
    EXPECT_EQ(result.err.rfind("rondo: ", 0), 0u) << result.err;
    EXPECT_HAS(result.err, text);
    EXPECT_EQ(result.out, "");
  }
}

TEST(Usage, WithoutAnythingShowsTheHelp) {
  const Result result = rondo({});
  EXPECT_EQ(result.status, 2);
  EXPECT_HAS(result.err, "Examples:");
}

TEST(Usage, FullDiskIsAnError) {
  const Result result = rondo(shell(1, path_from("TESTED_PROGRAM") + " explain all-reduce >/dev/full"));
  EXPECT_EQ(result.status, 1);
  EXPECT_HAS(result.err, "No space left");
}

// ---- rondo run ----

nlohmann::json json_of(Words words, std::map<std::string, std::string> environment = {}) {
  words.emplace_back("--json");
  const Result result = rondo(words, std::move(environment));
  EXPECT_EQ(result.status, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

TEST(Run, TellsEachRankItsWorldAndTagsItsOutput) {
  const Result result =
      rondo(shell(3, "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR; echo e >&2"));
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(lines_of(result.out),
            (std::multiset<std::string>{"[0] 0 3 0 3 127.0.0.1", "[1] 1 3 1 3 127.0.0.1",
                                        "[2] 2 3 2 3 127.0.0.1"}));
  EXPECT_EQ(lines_of(result.err), (std::multiset<std::string>{"[0] e", "[1] e", "[2] e"}));
}

TEST(Run, MakesPortsThatDiffer) {
  const Result result =
      rondo(shell(2, "echo P$MASTER_PORT; echo R$RONDO_MASTER_PORT; test ${#RONDO_SECRET} = 64"));
  EXPECT_EQ(result.status, 0);
  const auto own = numbers_after("P", result.out), ours = numbers_after("R", result.out);
  ASSERT_EQ(own.size(), 2u);
  EXPECT_EQ(own[0], own[1]);
  EXPECT_EQ(ours[0], ours[1]);
  EXPECT_NE(own[0], ours[0]);
}

TEST(Run, WithoutTagsLinesAreAsTheyWere) {
  const Result result = rondo({"run", "-n", "2", "--no-tags", "--", "echo", "hi"});
  EXPECT_EQ(result.out, "hi\nhi\n");
}

TEST(Run, ArgumentsReachTheProgramUntouched) {
  const Result result =
      rondo({"run", "-n", "1", "--", "printf", "<%s>\n", "[1,2]", "", "-n", "--", "--help", "run"});
  EXPECT_EQ(result.out, "[0] <[1,2]>\n[0] <>\n[0] <-n>\n[0] <-->\n[0] <--help>\n[0] <run>\n");
}

TEST(Run, NeedsNoMarkBeforeTheProgram) {
  EXPECT_EQ(rondo({"run", "-n", "1", "echo", "-n", "x"}).out, "[0] x\n");
}

TEST(Run, LinesStayWhole) {
  // Each line comes in two writes, and all ranks write at once to the same two pipes.
  const Result result = rondo(
      shell(4, "i=0; while [ $i -lt 100 ]; do printf 'line %s of ' $i; echo rank $RANK; i=$((i+1)); done"));
  EXPECT_EQ(result.status, 0);
  const auto lines = lines_of(result.out);
  EXPECT_EQ(lines.size(), 400u);
  for (int rank = 0; rank < 4; ++rank)
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(lines.count(fmt::format("[{0}] line {1} of rank {0}", rank, i)), 1u);
}

TEST(Run, LastLineNeedsNoNewline) { EXPECT_EQ(rondo(shell(1, "printf end")).out, "[0] end\n"); }

TEST(Run, OnlyRankZeroReadsInput) {
  const Result result = rondo(shell(1, "echo hello | " + path_from("TESTED_PROGRAM") + " run -n 2 -- cat"));
  EXPECT_EQ(result.out, "[0] [0] hello\n");
}

TEST(Run, WorksWithClosedInput) {
  EXPECT_EQ(lines_of(rondo(run_words(2, {"echo", "x"}), {}, true).out),
            (std::multiset<std::string>{"[0] x", "[1] x"}));
}

TEST(Run, ProgramThatCannotBeExecuted) {
  const Result missing = rondo(run_words(2, {"/nonexistent/program"}));
  EXPECT_EQ(missing.status, 127);
  EXPECT_EQ(missing.err, "rondo: cannot execute \"/nonexistent/program\": No such file or directory\n");
  EXPECT_EQ(rondo(run_words(2, {"/dev/null"})).status, 127);
}

TEST(Run, FailingRankEndsTheOthersAndGivesItsStatus) {
  const auto start = std::chrono::steady_clock::now();
  const Result result = rondo(shell(4, "[ $RANK = 2 ] && exit 7; exec sleep 60"));
  EXPECT_EQ(result.status, 7);
  EXPECT_HAS(result.err, "rondo: rank 2 exited with status 7; ending the other ranks\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

TEST(Run, LastWordsComeBeforeTheVerdict) {
  const Result result = rondo(shell(2, "[ $RANK = 1 ] && { echo why >&2; exit 3; }; exec sleep 60"));
  EXPECT_EQ(result.err, "[1] why\nrondo: rank 1 exited with status 3; ending the other ranks\n");
}

TEST(Run, KilledRankIsNamed) {
  const Result result = rondo(shell(2, "[ $RANK = 1 ] && kill -9 $$; exec sleep 60"));
  EXPECT_EQ(result.status, 137);
  EXPECT_HAS(result.err, "rank 1 was ended by signal 9 (Killed)");
}

TEST(Run, WhoIgnoresSigtermIsKilled) {
  const Result result =
      rondo(shell(2, "trap '' TERM; [ $RANK = 1 ] && { sleep 0.5; exit 7; }; while :; do sleep 1; done"));
  EXPECT_EQ(result.status, 7);
  EXPECT_HAS(result.err, "rank 0 did not end within 5 s of SIGTERM: killed");
}

TEST(Run, RanksOfAShellEndWithIt) {
  Program program(shell(2, "sleep 300 & echo child $!; [ $RANK = 1 ] && { sleep 0.5; exit 1; }; wait"));
  ASSERT_TRUE(program.shows("child", 2));
  const auto children = numbers_after("child ", program.out());
  EXPECT_EQ(program.wait().status, 1);
  for (const int child : children) EXPECT_TRUE(ends_soon(child));
}

TEST(Run, SignalsReachEveryRank) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1}) {
    Program program(shell(
        2, fmt::format("trap 'echo got {0}; exit 0' {0}; echo ready; while :; do sleep 0.05; done", signal)));
    ASSERT_TRUE(program.shows("ready", 2));
    ::kill(program.pid(), signal);
    const Result result = program.wait();
    EXPECT_EQ(result.status, 0) << result.err;
    for (int rank = 0; rank < 2; ++rank) EXPECT_HAS(result.out, fmt::format("[{}] got {}", rank, signal));
  }
}

TEST(Run, InterruptedRanksGiveTheSignalsStatus) {
  Program program(shell(2, "echo ready; exec sleep 60"));
  ASSERT_TRUE(program.shows("ready", 2));
  ::kill(program.pid(), SIGINT);
  const Result result = program.wait();
  EXPECT_EQ(result.status, 130);
  EXPECT_HAS(result.err, "signal 2 (Interrupt), which was passed on to it");
}

TEST(Run, RanksDieWithTheLauncher) {
  Program program(shell(3, "echo pid $$; exec sleep 300"));
  ASSERT_TRUE(program.shows("pid", 3));
  const auto pids = numbers_after("pid ", program.out());
  ::kill(program.pid(), SIGKILL);
  program.wait();
  for (const int pid : pids) EXPECT_TRUE(ends_soon(pid));
}

TEST(Run, ABrokenPipeEndsTheRanks) {
  const Result result = rondo(shell(1, path_from("TESTED_PROGRAM") + " run -n 2 -- yes | head -n 2 | wc -l"));
  EXPECT_EQ(result.out, "[0] 2\n");
}

TEST(Run, ForgottenChildDoesNotHoldTheRunUp) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(rondo(shell(1, "sleep 30 & exit 0")).status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST(Run, BoundRanksHaveCpusOfTheirOwn) {
  const std::string cpus_of_rank = "echo $(taskset -cp $$ | sed 's/.*: //')";
  const auto run = [&](int ranks) {
    return rondo({"run", "-n", std::to_string(ranks), "--bind", "--", "sh", "-c", cpus_of_rank});
  };
  const int cores = json_of({"info"})["machine"]["usable_cores"];
  const Result enough = run(cores);
  EXPECT_EQ(enough.status, 0);
  EXPECT_EQ(enough.err, "");
  std::set<std::string> sets;
  for (const std::string& line : lines_of(enough.out)) sets.insert(line.substr(line.find(' ')));
  EXPECT_EQ(sets.size(), static_cast<std::size_t>(cores)) << enough.out;
  const Result many = run(cores + 1);
  EXPECT_EQ(many.status, 0);
  EXPECT_HAS(many.err, fmt::format("--bind: {} ranks outnumber the {} cores: not bound", cores + 1, cores));
}

// ---- A program that uses the library ----

std::multiset<std::string> sums(int ranks) {
  std::multiset<std::string> lines;
  for (int rank = 0; rank < ranks; ++rank)
    lines.insert(fmt::format("[{0}] rank {0} of {1}: sum {2}", rank, ranks, ranks * (ranks + 1) / 2));
  return lines;
}

void expect_sums(const Result& result, int ranks) {
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(lines_of(result.out), sums(ranks));
}

TEST(World, FourRanksAddUp) { expect_sums(rondo(run_words(4, {world_program()})), 4); }

TEST(World, ARankMayComeLate) {
  expect_sums(rondo(shell(4, "[ $RANK = 3 ] && sleep 1; exec " + world_program())), 4);
}

TEST(World, DeadRankIsNamedToTheOthers) {
  const Result result = rondo(run_words(3, {world_program(), "1"}));
  EXPECT_EQ(result.status, 137);
  EXPECT_HAS(result.err, "rank 1 was ended by signal 9 (Killed); ending the other ranks");
}

TEST(World, StrangersOnThePortDisturbNothing) {
  Program program(
      shell(2, "[ $RANK = 0 ] && echo port $RONDO_MASTER_PORT && sleep 1; exec " + world_program()));
  ASSERT_TRUE(program.shows("port", 1));
  const Endpoint door{
      .unix_name = {}, .host = "127.0.0.1", .port = numbers_after("port ", program.out()).front()};
  const Deadline soon = Deadline::after(5s);
  const Fd silent = connect_to(door, soon), loud = connect_to(door, soon);
  const std::string request = "GET / HTTP/1.1\r\nHost: " + std::string(200, 'x') + "\r\n\r\n";
  send_all(loud, std::as_bytes(std::span(request)), soon);
  Result result = program.wait();
  EXPECT_EQ(result.status, 0) << result.err;
  result.out.erase(0, result.out.find('\n') + 1);  // the port
  EXPECT_EQ(lines_of(result.out), sums(2));
}

TEST(World, TwoJobsAtOnceDoNotMeet) {
  for (int round = 0; round < 10; ++round) {
    Program first(run_words(2, {world_program()})), second(run_words(3, {world_program()}));
    expect_sums(first.wait(), 2);
    expect_sums(second.wait(), 3);
  }
}

// ---- rondo explain ----

TEST(Explain, RingsOfAllSizesEndRight) {
  for (const char* what : {"all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce"})
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const char* algorithm : {"ring", "direct"}) {
        const auto told = json_of({"explain", what, "-n", std::to_string(ranks), "--algo", algorithm});
        EXPECT_TRUE(told["drawn"]["correct"]);
        // The drawing takes as many steps as the summary says.
        EXPECT_EQ(told["drawn"]["frames"].size() - 1, told["algorithms"][algorithm]["steps"])
            << what << " " << ranks;
      }
}

TEST(Explain, ShowsPartialSumsAndBytes) {
  const Result result = rondo({"explain", "all-reduce", "-n", "4", "--count", "1048576", "--type", "f32"});
  EXPECT_EQ(result.status, 0);
  for (const char* part : {"4,194,304 bytes", "6,291,456", "2(N-1)/N · S", "Step 6 of 6", "c3 44 → 2",
                           "checked: 1111 2222 3333 4444"})
    EXPECT_HAS(result.out, part);
}

TEST(Explain, BytesAreTheLedgersFormulas) {
  const auto told = json_of({"explain", "all-gather", "-n", "4", "--count", "10", "--type", "f16"});
  EXPECT_EQ(told["algorithms"]["ring"]["sent_by_rank"], nlohmann::json({60, 60, 60, 60}));
  const auto uneven = json_of({"explain", "all-reduce", "-n", "3", "--count", "10"});
  EXPECT_EQ(uneven["algorithms"]["direct"]["sent_by_rank"], nlohmann::json({56, 52, 52}));
}

TEST(Explain, ASettingIsSeen) {
  const auto told = json_of({"explain", "all-reduce"}, {{"RONDO_ALGO", "ring"}});
  EXPECT_EQ(told["picked"], "ring");
  EXPECT_EQ(told["because"], "RONDO_ALGO=ring asks for it");
}

TEST(Explain, DoublingHasAFormulaForPowersOfTwo) {
  const std::map<std::string, std::string> environment{{"RONDO_ALGO", "doubling"}};
  const auto eight = json_of({"explain", "all-reduce", "-n", "8", "--size", "800"}, environment);
  EXPECT_EQ(eight["algorithms"]["doubling"]["steps"], 3);
  EXPECT_EQ(eight["algorithms"]["doubling"]["formula"], "(N-1) · S");
  EXPECT_EQ(eight["algorithms"]["doubling"]["sent_by_rank"], nlohmann::json(std::vector<int>(8, 7 * 800)));
  const auto three = json_of({"explain", "all-reduce", "-n", "3", "--size", "800"}, environment);
  EXPECT_EQ(three["algorithms"]["doubling"]["steps"], 3);
  EXPECT_TRUE(three["algorithms"]["doubling"]["formula"].is_null());
  EXPECT_EQ(three["algorithms"]["doubling"]["sent_by_rank"], nlohmann::json({2400, 800, 800}));
  const Result shown = rondo({"explain", "all-reduce", "-n", "3", "--size", "800"}, environment);
  EXPECT_HAS(shown.out, "= ⌊log2 N⌋ + 2");
}

// The ways that are in force, and what decides.
TEST(Explain, TellsTheWayAndWhy) {
  const std::map<std::string, std::string> none{{"RONDO_TUNE_FILE", "none"}};
  const auto told = [&](Words words, std::map<std::string, std::string> environment = {}) {
    words.insert(words.begin(), "explain");
    environment.insert(none.begin(), none.end());
    return json_of(words, environment);
  };
  const auto slots = told({"all-reduce", "-n", "3", "--size", "4K"});
  EXPECT_EQ(slots["way"], "slots");
  EXPECT_EQ(slots["algorithms"]["slots"]["sent_by_rank"], nlohmann::json({8192, 8192, 8192}));
  EXPECT_EQ(told({"all-gather", "-n", "4", "--size", "16K"})["way"], "slots");
  const auto staged = told({"all-reduce", "--size", "8K"});
  EXPECT_EQ(staged["way"], "staged");
  EXPECT_HAS(staged["way_because"].get<std::string>(),
             fmt::format("RONDO_STAGING_BYTES={}, default", grouped(Settings().staging_bytes)));
  EXPECT_FALSE(staged["algorithms"].contains("slots"));
  const auto windows = told({"reduce-scatter", "--size", "1M", "--buffers", "rondo"});
  EXPECT_EQ(windows["way"], "windows");
  EXPECT_HAS(windows["stores"].get<std::string>(), "into the caches");
  EXPECT_HAS(
      told({"reduce-scatter", "--size", "1M", "--buffers", "rondo"},
           {{"RONDO_WINDOWS_STREAMING_ABOVE", "4096"}})["stores"]
          .get<std::string>(),
      "past the caches, for 5,242,880 bytes that all ranks touch (RONDO_WINDOWS_STREAMING_ABOVE=4,096, "
      "environment)");
  EXPECT_EQ(told({"all-reduce", "--size", "8K"}, {{"RONDO_STAGING_BYTES", "0"}})["way"], "streams");
  EXPECT_EQ(told({"all-gather", "--size", "1M"}, {{"RONDO_STAGED_GATHER_ABOVE", "1048576"}})["way"],
            "streams");
  EXPECT_EQ(told({"all-gather", "--size", "2M"}, {{"RONDO_STAGED_GATHER_ABOVE", "1048576"}})["way"],
            "staged");
  EXPECT_EQ(told({"all-reduce"}, {{"RONDO_ALGO", "ring"}})["way"], "streams");
  EXPECT_EQ(told({"broadcast"})["way"], "streams");
  const auto broadcast = told({"broadcast", "--buffers", "rondo"});
  EXPECT_EQ(broadcast["way"], "windows");
  EXPECT_EQ(broadcast["picked"], "direct");
  EXPECT_HAS(broadcast["stores"].get<std::string>(), "into the caches");
  EXPECT_EQ(told({"reduce", "--buffers", "rondo"})["way"], "streams");
  const auto device = told({"all-reduce", "--buffers", "device"});
  EXPECT_EQ(device["memory"], "device");
  EXPECT_EQ(device["way"], "windows");
  EXPECT_EQ(told({"all-reduce", "--size", "64", "--buffers", "device"})["way"], "windows");
  EXPECT_EQ(told({"reduce", "--buffers", "device"})["memory"], "device, host staging");
  EXPECT_EQ(told({"all-reduce", "--buffers", "device"}, {{"RONDO_DEVICE_STAGING", "1"}})["memory"],
            "device, host staging");
  EXPECT_HAS(rondo({"explain", "reduce", "--buffers", "device"}).out, "calls like reduce go no other way");
  EXPECT_EQ(told({"all-reduce"})["memory"], "host");
  EXPECT_HAS(rondo({"explain", "all-reduce", "--buffers", "device"}).out, "buffers on a device");
  EXPECT_HAS(rondo({"explain", "all-gather", "--size", "1001"}).err,
             "--size 1001: expected a multiple of 16");
  EXPECT_HAS(rondo({"explain", "all-gather", "--size", "1X"}).err, "size \"1X\": expected a number of bytes");
  EXPECT_EQ(rondo({"explain", "fsdp", "--buffers", "rondo"}).status, 2);
}

TEST(Explain, TimesAreThoseOfTheTuneFile) {
  const TemporaryFolder folder;
  const auto without = json_of({"explain", "all-reduce"}, {{"RONDO_TUNE_FILE", "none"}});
  EXPECT_TRUE(without["time"]["microseconds"].is_null());
  EXPECT_EQ(without["time"]["basis"], "not measured: run `rondo tune`");

  TuneFile file{rondo_version(), "2026-11-30 10:00", this_machine(), {}, {}};
  file.times.push_back({"all-reduce", "malloc", 2, {{1024, 0.5}, {4096, 1}, {16384, 10}, {1 << 20, 80}}});
  const auto time = [&](Words words) {
    words.insert(words.begin(), {"explain", "all-reduce"});
    return json_of(words, {{"RONDO_TUNE_FILE", folder.write("tune.json", file.text())}})["time"];
  };
  EXPECT_EQ(time({"-n", "2", "--size", "1024"})["microseconds"], 0.5);
  EXPECT_EQ(time({"-n", "2", "--size", "1024"})["basis"],
            "measured on this host by rondo tune on 2026-11-30 10:00");
  EXPECT_NEAR(time({"-n", "2", "--size", "2048"})["microseconds"], std::sqrt(0.5), 1e-9);
  // Slots end at 4 KiB: nothing is made of points on both sides.
  EXPECT_EQ(time({"-n", "2", "--size", "8K"})["microseconds"], 10);
  EXPECT_HAS(time({"-n", "2", "--size", "8K"})["basis"].get<std::string>(),
             "that of 16,384 bytes, the least");
  EXPECT_EQ(time({"-n", "2", "--size", "2M"})["microseconds"], 160);
  EXPECT_HAS(time({"-n", "2", "--size", "2M"})["basis"].get<std::string>(), "scaled up from 1,048,576 bytes");
  EXPECT_HAS(time({"-n", "2", "--type", "bf16"})["basis"].get<std::string>(), ", with f32");
  EXPECT_EQ(time({"-n", "3"})["basis"], "not measured on 3 ranks: run `rondo tune --ranks 3`");
  EXPECT_EQ(time({"-n", "2", "--buffers", "rondo"})["basis"],
            "not measured on 2 ranks: run `rondo tune --ranks 2`");

  const Result told = rondo({"explain", "all-reduce", "-n", "2", "--size", "64K"},
                            {{"RONDO_TUNE_FILE", folder / "tune.json"}});
  EXPECT_HAS(told.out, "way     staged: memory from malloc");
  EXPECT_HAS(told.out, "time    20.0 us: between those of 16,384 and 1,048,576 bytes, measured on this host");
  file.machine.cpu = "Z80";
  EXPECT_HAS(time({"-n", "2"})["basis"].get<std::string>(), "is ignored: it was made on another CPU, Z80");
}

TEST(Explain, OtherLibrariesNamesAreUnderstood) {
  EXPECT_EQ(json_of({"explain", "AllReduce"})["collective"], "all-reduce");
  EXPECT_EQ(json_of({"explain", "reduce_scatter"})["collective"], "reduce-scatter");
}

TEST(Explain, FsdpMovesTheDocumentsBytes) {
  const auto told = json_of({"explain", "fsdp", "-n", "4", "--layers", "1"});
  EXPECT_EQ(told["units"][1]["bytes"], 4720896);
  EXPECT_EQ(told["units"][1]["shard_bytes"][0], 1180224);
  std::uint64_t layer = 0;
  for (const auto& step : told["steps"])
    if (step["unit"] == "layer 0") layer += step["sent_by_rank"][0].get<std::uint64_t>();
  EXPECT_EQ(layer, 10622016u);
}

TEST(Explain, FsdpOrder) {
  const auto told = json_of({"explain", "fsdp", "-n", "2", "--layers", "2"});
  std::string order;
  for (const auto& step : told["steps"]) {
    const std::string kind = step["step"],
                      unit = step["unit"].is_null() ? "" : step["unit"].get<std::string>();
    if (kind == "all-gather" || kind == "reduce-scatter")
      order += (kind == "all-gather" ? "AG " : "RS ") + unit + ", ";
  }
  EXPECT_EQ(order,
            "AG root, AG layer 0, AG layer 1, AG layer 1, AG layer 0, RS layer 1, RS layer 0, RS root, ");
  // What is held at the end is what was held at the start.
  EXPECT_EQ(told["steps"].front()["held_by_rank"], told["steps"].back()["held_by_rank"]);
}

TEST(Explain, FsdpWithUnevenRows) {
  const auto told = json_of({"explain", "fsdp", "-n", "7", "--layers", "1"});
  std::uint64_t sum = 0;
  for (const auto& bytes : told["units"][1]["shard_bytes"]) sum += bytes.get<std::uint64_t>();
  EXPECT_EQ(sum, 4720896u);
}

// ---- rondo info ----

TEST(Info, ParsesAndProbes) {
  const auto told = json_of({"info"});
  EXPECT_GE(told["machine"]["usable_cpus"], 1);
  EXPECT_TRUE(told["transports"]["shm"]["usable"]);
  EXPECT_TRUE(told["libraries"].contains("CLI11"));
}

TEST(Info, ShowsWhereSettingsComeFrom) {
  const Result result =
      rondo({"info"}, {{"RONDO_SLICE_BYTES", "4096"}, {"RONDO_SLISE", "1"}, {"RONDO_SECRET", "hush"}});
  EXPECT_EQ(result.status, 0);
  EXPECT_HAS(result.out, "RONDO_SLICE_BYTES              4,096  ");
  EXPECT_HAS(result.out, "unknown to Rondo: is it misspelt?");
  EXPECT_EQ(result.out.find("hush"), std::string::npos);
}

TEST(Info, BadSettingIsShownAndAnError) {
  const Result result = rondo({"info"}, {{"RONDO_ALGO", "rings"}});
  EXPECT_EQ(result.status, 2);
  EXPECT_HAS(result.out, "rings");
  EXPECT_HAS(result.err,
             "rondo: RONDO_ALGO=\"rings\": expected auto, ring, direct, one-shot, doubling or tree");
}

// ---- rondo tune ----

TEST(Tune, WritesAFileThatIsInForce) {
  const TemporaryFolder folder;
  const std::string path = folder / "new/tune.json";
  const auto told = json_of({"tune", "-n", "2,3", "--seconds", "0.5", "--max-size", "64K", "-o", path});
  EXPECT_EQ(told, nlohmann::json::parse(std::ifstream(path)));
  EXPECT_EQ(told["times"].size(), 2u * 3 * 2);  // ranks, collectives, kinds of buffers
  for (const auto& times : told["times"]) {
    EXPECT_EQ(times["microseconds"].size(), 6u);
    for (const auto& point : times["microseconds"]) EXPECT_GT(point["median"], 0);
  }
  const auto info = json_of({"info"}, {{"RONDO_TUNE_FILE", path}});
  EXPECT_EQ(info["tune"]["file"], path);
  EXPECT_EQ(info["tune"]["in_force"], true);
  // Nothing else is left there.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "new"), {}), 1);
}

TEST(Tune, TablesAreForPeople) {
  const TemporaryFolder folder;
  const std::string path = folder / "tune.json";
  // What was tuned, set or broken before does not matter.
  folder.write("tune.json", "broken");
  const Result result = rondo({"tune", "-n", "2", "--seconds", "0.3", "--max-size", "64K"},
                              {{"RONDO_TUNE_FILE", path}, {"RONDO_ALGO", "ring"}});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part :
       {"RONDO_STAGING_BYTES", "2 ranks, microseconds, f32", "all-gather, malloc", "Written to "})
    EXPECT_HAS(result.out, part);
  EXPECT_EQ(rondo({"info"}, {{"RONDO_TUNE_FILE", path}}).status, 0);
}

TEST(Tune, SaysBeforehandThatItCannotWrite) {
  const Result folder = rondo({"tune", "-o", "/"});
  EXPECT_EQ(folder.status, 2);
  EXPECT_HAS(folder.err, "--output /: cannot write there: it is a folder");
  EXPECT_HAS(rondo({"tune", "-o", "/proc/none/x"}).err, "--output /proc/none/x: cannot make its folder");
  for (const char* bad : {"1", "0", "65", "two"}) EXPECT_EQ(rondo({"tune", "-n", bad}).status, 2) << bad;
  EXPECT_EQ(rondo({"tune", "--max-size", "1K"}).status, 2);
}

TEST(Info, ShowsTheTuneFile) {
  const TemporaryFolder folder;
  const auto file = [&](const char* version) {
    return std::map<std::string, std::string>{
        {"RONDO_TUNE_FILE", folder.write("t.json", fmt::format("{{\"rondo\": \"{}\"}}", version))}};
  };
  const Result foreign = rondo({"info"}, file("77.0.0"));
  EXPECT_EQ(foreign.status, 0);
  EXPECT_HAS(foreign.out, "t.json, ignored: Rondo 77.0.0 made it");
  const Result bad = rondo({"info"}, file("\"oops"));
  EXPECT_EQ(bad.status, 2);
  EXPECT_HAS(bad.err, "t.json: line 1, byte 13");
  EXPECT_HAS(rondo({"info"}).out, "tune file: none");
}

}  // namespace
}  // namespace rondo
