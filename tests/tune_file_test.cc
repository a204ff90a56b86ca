// Tune files: what is read and refused, by what words; which file is in force; that ranks agree, and that no
// file changes a bit of a result.
#include "src/tune_file.h"

#include <cstring>

#include "src/calls.h"
#include "tests/error_message.h"
#include "tests/ranks.h"
#include "tests/temporary_folder.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TuneFile file_of_this_host(std::map<std::string, std::size_t> settings = {}) {
  return {rondo_version(),
          "2026-11-30",
          this_machine(),
          std::move(settings),
          {{"all-reduce", "malloc", 2, {{64, 0.25}, {1024, 0.5}}}}};
}

void expect_refused(const std::string& text, const std::string& words) {
  const std::string message = error_message([&] { parse_tune_file(text, "t.json"); });
  EXPECT_NE(message.find(words), std::string::npos) << message;
  EXPECT_TRUE(message.starts_with("t.json")) << message;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(TuneFile, IsReadAsWritten) {
  const TuneFile written = file_of_this_host({{"RONDO_STAGING_BYTES", 65536}});
  const TuneFile read = parse_tune_file(written.text(), "t.json");
  EXPECT_EQ(read.text(), written.text());
  EXPECT_EQ(why_foreign(read), "");
  Settings settings;
  read.give(settings);
  EXPECT_EQ(settings.staging_bytes, 65536u);
  EXPECT_EQ(settings.origin_of("RONDO_STAGING_BYTES"), Origin::tune_file);
  EXPECT_EQ(settings.origin_of("RONDO_ALGO"), Origin::standard);
}

TEST(TuneFile, ThatIsNoJsonIsRefusedByItsPlace) {
  expect_refused("{\n \"rondo\": \"0.1.0\",\n oops", "t.json: line 3, byte 23: ");
  expect_refused("", "line 1, byte 1");
  expect_refused("[]", "expected an object");
}

TEST(TuneFile, UnknownMissingAndBadKeysAreNamed) {
  const std::string good = file_of_this_host({{"RONDO_STAGING_BYTES", 65536}}).text();
  expect_refused(replaced(good, "\"date\"", "\"data\""), "\"date\" is missing");
  expect_refused(replaced(good, "{", "{\"colour\": 1,"), "\"colour\": expected no key but rondo, date");
  expect_refused(replaced(good, "\"cores\"", "\"kores\""), "machine: \"cores\" is missing");
  expect_refused(replaced(good, "RONDO_STAGING_BYTES", "RONDO_ALGO"), "settings: RONDO_ALGO: ");
  expect_refused(replaced(good, "65536", "2147483648"),
                 "settings: RONDO_STAGING_BYTES: RONDO_STAGING_BYTES=\"2147483648\": expected");
  expect_refused(replaced(good, "65536", "-1"), "settings: RONDO_STAGING_BYTES: -1: expected a whole number");
  expect_refused(replaced(good, "0.25", "0"),
                 "times[0]: microseconds[0]: median: 0: expected a number above 0");
  expect_refused(replaced(good, "all-reduce", "all-together"), "expected all-reduce, all-gather");
}

TEST(TuneFile, OfAnotherMachineOrVersionIsForeign) {
  TuneFile file = file_of_this_host();
  file.machine.cpu = "Z80";
  EXPECT_NE(why_foreign(file).find("another CPU, Z80"), std::string::npos);
  file = file_of_this_host();
  file.machine.cores += 1;
  EXPECT_NE(why_foreign(file).find("cores"), std::string::npos);
  // Whatever else stands in it.
  const TuneFile future = parse_tune_file(R"({"rondo": "99.0.0", "new": []})", "t.json");
  EXPECT_NE(why_foreign(future).find("Rondo 99.0.0 made it"), std::string::npos);
}

// ---- which file is in force ----

TEST(TuneFile, TheVariableNamesIt) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.json", file_of_this_host({{"RONDO_STAGING_BYTES", 65536}}).text());
  {
    const Environment named("RONDO_TUNE_FILE", path.string());
    const Settings settings = Settings::from_environment();
    EXPECT_EQ(settings.staging_bytes, 65536u);
    EXPECT_EQ(settings.tune_file, path.string());
    EXPECT_EQ(Settings::from_environment_alone().staging_bytes, Settings().staging_bytes);
  }
  {
    const Environment none("RONDO_TUNE_FILE", "none");
    EXPECT_EQ(Settings::from_environment().staging_bytes, Settings().staging_bytes);
    EXPECT_EQ(Settings::from_environment().tune_file, "");
  }
  for (const std::string& bad : {std::string(), (folder / "missing").string()}) {
    const Environment named("RONDO_TUNE_FILE", bad);
    const std::string message = error_message([] { Settings::from_environment(); });
    EXPECT_NE(message.find("RONDO_TUNE_FILE"), std::string::npos) << message;
    EXPECT_NE(message.find("expected a file of `rondo tune`, or "), std::string::npos) << message;
  }
}

TEST(TuneFile, TheStandardPlaceIsTheUsersFolder) {
  const TemporaryFolder folder;
  const Environment home("HOME", folder.path().string());
  const Environment config("XDG_CONFIG_HOME", "");
  EXPECT_EQ(standard_tune_file(), folder / ".config/rondo/tune.json");
  const Environment other("XDG_CONFIG_HOME", (folder / "config").string());
  EXPECT_EQ(standard_tune_file(), folder / "config/rondo/tune.json");
  const char* named = std::getenv("RONDO_TUNE_FILE");
  const std::string before = named == nullptr ? "" : named;
  ::unsetenv("RONDO_TUNE_FILE");
  EXPECT_FALSE(tune_file_to_read());  // not there, which is no error
  std::filesystem::create_directories(folder / "config/rondo");
  folder.write("config/rondo/tune.json", file_of_this_host({{"RONDO_STAGING_BYTES", 8192}}).text());
  EXPECT_EQ(Settings::from_environment().staging_bytes, 8192u);
  if (named != nullptr) ::setenv("RONDO_TUNE_FILE", before.c_str(), 1);
}

TEST(TuneFile, TheEnvironmentWins) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.json", file_of_this_host({{"RONDO_STAGING_BYTES", 65536}}).text());
  const Environment named("RONDO_TUNE_FILE", path.string()), staging("RONDO_STAGING_BYTES", "4096");
  const Settings settings = Settings::from_environment();
  EXPECT_EQ(settings.staging_bytes, 4096u);
  EXPECT_EQ(settings.origin_of("RONDO_STAGING_BYTES"), Origin::environment);
}

TEST(TuneFile, AForeignOneIsNotInForceAndLoggedOnce) {
  const TemporaryFolder folder;
  TuneFile foreign = file_of_this_host({{"RONDO_STAGING_BYTES", 65536}});
  foreign.machine.cpu = "Z80";
  const Environment named("RONDO_TUNE_FILE", folder.write("t.json", foreign.text()).string());
  const Environment debug("RONDO_DEBUG", "info");
  EXPECT_EQ(Settings::from_environment().staging_bytes, Settings().staging_bytes);
  ::testing::internal::CaptureStderr();
  run_ranks(2, [](Communicator& comm) { comm.split(0, comm.rank(), comm.options()); },
            {Settings::from_environment(), ""});
  const std::string told = ::testing::internal::GetCapturedStderr();
  const std::size_t first = told.find("t.json is ignored: it was made on another CPU, Z80");
  EXPECT_NE(first, std::string::npos) << told;
  EXPECT_EQ(told.find("is ignored", first + 20), std::string::npos) << told;
}

// ---- ranks ----

// Files that differ, or are not everywhere, are no error: rank 0's is in force on all ranks.
TEST(TuneFile, OfRankZeroIsInForceOnAllRanks) {
  const TemporaryFolder folder;
  for (int rank = 0; rank < 2; ++rank)
    folder.write(
        std::to_string(rank),
        file_of_this_host({{"RONDO_STAGING_BYTES", 8192u << rank}, {"RONDO_STAGED_GATHER_ABOVE", 1}}).text());
  const UniqueId id = UniqueId::make();
  run_processes(3, [&](int rank) {
    ::setenv("RONDO_TUNE_FILE", rank == 2 ? "none" : (folder / std::to_string(rank)).c_str(), 1);
    const auto comm = Communicator::create(id.meeting_place(), rank, 3, {});
    EXPECT_EQ(comm->options().settings.staging_bytes, 8192u);
    EXPECT_EQ(comm->options().settings.staged_gather_above, 1u);
  });
}

TEST(TuneFile, IsNoExcuseForVariablesThatDiffer) {
  const TemporaryFolder folder;
  const auto path = folder.write("t", file_of_this_host({{"RONDO_STAGING_BYTES", 8192}}).text());
  const UniqueId id = UniqueId::make();
  run_processes(2, [&](int rank) {
    ::setenv("RONDO_TUNE_FILE", path.c_str(), 1);
    if (rank == 1) ::setenv("RONDO_STAGING_BYTES", "4096", 1);
    const std::string message = error_message([&] {
      CommunicatorOptions options;
      options.settings.timeout = 20s;
      Communicator::create(id.meeting_place(), rank, 2, options);
    });
    for (const char* word : {"RONDO_STAGING_BYTES", "8192", "4096", "rank 1"})
      EXPECT_NE(message.find(word), std::string::npos) << message;
  });
}

// Numbers whose sum depends on the order of addition.
float input(int rank, std::size_t i) {
  return static_cast<float>(static_cast<int>(i * 7919 % 1009) - 500) * (rank % 2 == 0 ? 1e-3f : 3.7e4f) +
         static_cast<float>(rank);
}

float sum_in_rank_order(int ranks, std::size_t i) {
  float sum = input(0, i);
  for (int rank = 1; rank < ranks; ++rank) sum += input(rank, i);
  return sum;
}

TEST(TuneFile, MovesCallsFromWayToWayAndNoBits) {
  constexpr int ranks = 3;
  constexpr std::size_t count = 50'001;
  using Map = std::map<std::string, std::size_t>;
  const std::size_t never = std::size_t{1} << 50;
  const std::pair<Map, Algorithm> cases[] = {
      {{}, Algorithm::staged},
      {{{"RONDO_STAGING_BYTES", 4096}}, Algorithm::staged},
      {{{"RONDO_STAGING_BYTES", 0}}, Algorithm::direct},
      {{{"RONDO_STAGED_STREAMING_ABOVE", 0}}, Algorithm::staged},
      {{{"RONDO_STAGED_STREAMING_ABOVE", never}, {"RONDO_STAGING_BYTES", 1 << 22}}, Algorithm::staged},
      {{{"RONDO_STAGED_REDUCE_ABOVE", never}, {"RONDO_STAGED_GATHER_ABOVE", never}}, Algorithm::direct}};
  for (const auto& [settings, way] : cases) {
    const TemporaryFolder folder;
    const Environment named("RONDO_TUNE_FILE",
                            folder.write("t.json", file_of_this_host(settings).text()).string());
    CommunicatorOptions options;
    options.settings.strict = true;
    run_ranks(
        ranks,
        [&, way = way](Communicator& comm) {
          const Seat seat{comm.rank(), comm.size()};
          std::vector<float> send(count), receive(count), gathered(count * ranks), mine(count / ranks);
          for (std::size_t i = 0; i < count; ++i) send[i] = input(seat.rank, i);
          comm.run(all_reduce_call(seat, send.data(), receive.data(), count, DataType::f32, {}));
          comm.run(reduce_scatter_call(seat, send.data(), mine.data(), count / ranks, DataType::f32, {}));
          comm.run(all_gather_call(seat, send.data(), gathered.data(), count, DataType::f32));
          for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(receive[i], sum_in_rank_order(ranks, i)) << i;
          const std::size_t first = static_cast<std::size_t>(seat.rank) * mine.size();
          for (std::size_t i = 0; i < mine.size(); ++i)
            ASSERT_EQ(mine[i], sum_in_rank_order(ranks, first + i)) << i;
          for (std::size_t i = 0; i < gathered.size(); ++i)
            ASSERT_EQ(gathered[i], input(static_cast<int>(i / count), i % count)) << i;
          std::uint64_t calls = 0;
          for (const auto& [key, row] : comm.ledger().rows())
            if (key.algorithm == way) calls += row.calls;
          EXPECT_EQ(calls, 3u);
        },
        options);
  }
}

}  // namespace
}  // namespace rondo::test
