// Every environment variable: what is taken, what is refused and by what words, whatever errno was before;
// and ranks that were set up differently.
#include "src/settings.h"

#include <cerrno>
#include <cstdlib>

#include "tests/error_message.h"
#include "tests/ranks.h"

namespace rondo::test {
namespace {

using namespace std::chrono_literals;

// A variable set for the length of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    ::setenv(name, value, 1);
    errno = EAGAIN;  // what some other call left behind
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// The variable takes none of the values, and says so by name and value.
template <typename Read>
void expect_refused(const char* name, std::initializer_list<const char*> values, Read read) {
  for (const char* value : values) {
    const Variable set(name, value);
    const std::string message = error_message(read);
    EXPECT_NE(message.find(fmt::format("{}=\"{}\": expected", name, value)), std::string::npos) << message;
  }
}

const auto read_settings = [] { Settings::from_environment(); };

TEST(Settings, HaveDefaults) {
  const Settings settings = Settings::from_environment();
  EXPECT_EQ(settings.algorithm, Algorithm::automatic);
  EXPECT_EQ(settings.buffer_bytes, 131072u);
  EXPECT_EQ(settings.slice_bytes, 32768u);
  EXPECT_EQ(settings.timeout, 10min);
  EXPECT_FALSE(settings.strict);
  EXPECT_EQ(settings.debug, "warn");
}

TEST(Settings, TakeSizes) {
  const Variable buffer("RONDO_BUFFER_BYTES", "1000003"), slice("RONDO_SLICE_BYTES", "65536");
  EXPECT_EQ(Settings::from_environment().buffer_bytes, 1'000'003u);
  EXPECT_EQ(Settings::from_environment().slice_bytes, 65'536u);
  const Variable staging("RONDO_STAGING_BYTES", "0");
  EXPECT_EQ(Settings::from_environment().staging_bytes, 0u);
}

TEST(Settings, RefuseWhatIsNoSize) {
  for (const char* name : {"RONDO_BUFFER_BYTES", "RONDO_SLICE_BYTES"})
    expect_refused(name,
                   {"", " 65536", "65536 ", "64k", "abc", "-1", "0", "63", "9e99", "0x100", "+64",
                    "1073741825", "99999999999999999999", "64.0"},
                   read_settings);
  expect_refused("RONDO_STAGING_BYTES", {"", "-1", "1073741825", "1M"}, read_settings);
}

TEST(Settings, RefuseASliceThatWouldCutElements) {
  expect_refused("RONDO_SLICE_BYTES", {"65", "100", "1000003"}, read_settings);
}

TEST(Settings, TakeTimeoutsInSeconds) {
  for (const auto& [text, expected] : {std::pair{"0", 0ms},
                                       {"0.5", 500ms},
                                       {"600", 600'000ms},
                                       {"0.0001", 1ms},
                                       {"1e3", 1'000'000ms},
                                       {"1000000", 1'000'000'000ms}}) {
    const Variable set("RONDO_TIMEOUT", text);
    EXPECT_EQ(Settings::from_environment().timeout, expected) << text;
  }
}

TEST(Settings, RefuseWhatIsNoTimeout) {
  expect_refused("RONDO_TIMEOUT", {"", " 1", "1s", "abc", "-1", "nan", "inf", "1000001", "9e99", "-0.5"},
                 read_settings);
}

TEST(Settings, TakeAndRefuseWords) {
  for (const Algorithm algorithm : forcible) {
    const Variable set("RONDO_ALGO", name_of(algorithm));
    EXPECT_EQ(Settings::from_environment().algorithm, algorithm);
  }
  expect_refused("RONDO_ALGO", {"", "Ring", "slots", "hierarchy", "one_shot", "0", "ring "}, read_settings);
  {
    const Variable set("RONDO_STRICT", "1");
    EXPECT_TRUE(Settings::from_environment().strict);
  }
  expect_refused("RONDO_STRICT", {"", "true", "2", "-1", " 1"}, read_settings);
  {
    const Variable check("RONDO_CHECK", "1"), devices("RONDO_NET_DEVICES", "eth0,eth1");
    EXPECT_TRUE(Settings::from_environment().check);
    EXPECT_EQ(Settings::from_environment().net_devices, "eth0,eth1");
  }
  {
    const Variable set("RONDO_DEVICE_STAGING", "1");
    EXPECT_TRUE(Settings::from_environment().device_staging);
  }
  expect_refused("RONDO_DEVICE_STAGING", {"", "on", "2"}, read_settings);
  expect_refused("RONDO_CHECK", {"", "yes", "2"}, read_settings);
  expect_refused("RONDO_NET_DEVICES", {""}, read_settings);
  {
    const Variable set("RONDO_DEBUG", "trace");
    EXPECT_EQ(Settings::from_environment().debug, "trace");
  }
  expect_refused("RONDO_DEBUG", {"", "INFO", "3", "warning"}, read_settings);
}

TEST(LaunchEnvironment, IsReadWhole) {
  const Variable rank("RANK", "2"), size("WORLD_SIZE", "4"), address("MASTER_ADDR", "127.0.0.1"),
      port("MASTER_PORT", "29500"), secret("RONDO_SECRET", "s");
  const LaunchEnvironment launch = LaunchEnvironment::read();
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.master_port, 29501);  // torchrun's own store listens on MASTER_PORT
  EXPECT_EQ(launch.secret, "s");
  EXPECT_FALSE(launch.listen_fd);
  const Variable own("RONDO_MASTER_PORT", "29500"), descriptor("RONDO_LISTEN_FD", "7");
  EXPECT_EQ(LaunchEnvironment::read().master_port, 29500);
  EXPECT_EQ(LaunchEnvironment::read().listen_fd, 7);
}

TEST(LaunchEnvironment, NeverGuesses) {
  const auto read = [] { LaunchEnvironment::read(); };
  EXPECT_NE(error_message(read).find("WORLD_SIZE is not set"), std::string::npos);
  const Variable size("WORLD_SIZE", "4");
  EXPECT_NE(error_message(read).find("RANK is not set"), std::string::npos);
  const Variable rank("RANK", "3");
  EXPECT_NE(error_message(read).find("MASTER_ADDR is not set"), std::string::npos);
  const Variable address("MASTER_ADDR", "127.0.0.1");
  EXPECT_NE(error_message(read).find("MASTER_PORT is not set"), std::string::npos);
  expect_refused("MASTER_PORT", {"", "0", "65535", "65536", "http", "-1"}, read);
  expect_refused("RONDO_MASTER_PORT", {"", "0", "65536", "1.5"}, read);
}

TEST(LaunchEnvironment, RefusesRanksOutsideTheWorld) {
  const auto read = [] { LaunchEnvironment::read(); };
  expect_refused("WORLD_SIZE", {"", "0", "-4", "4x", "99999999999"}, read);
  const Variable size("WORLD_SIZE", "4"), address("MASTER_ADDR", "127.0.0.1"), port("MASTER_PORT", "29500");
  expect_refused("RANK", {"", "4", "-1", "1 "}, read);
  const Variable rank("RANK", "0");
  expect_refused("RONDO_LISTEN_FD", {"", "2", "-1", "stdin"}, read);
}

// ---- what mpirun and srun tell ----

TEST(LaunchEnvironment, TakesRankAndSizeFromMpirun) {
  EXPECT_FALSE(LaunchEnvironment::is_there());
  const auto is_rank_2_of_3 = [](const char* which) {
    EXPECT_TRUE(LaunchEnvironment::is_there()) << which;
    const LaunchEnvironment launch = LaunchEnvironment::read();
    EXPECT_EQ(launch.rank, 2) << which;
    EXPECT_EQ(launch.size, 3) << which;
    EXPECT_NE(launch.job, "") << which;
    EXPECT_EQ(launch.master_address, "") << which;
  };
  {
    const Variable rank("OMPI_COMM_WORLD_RANK", "2"), size("OMPI_COMM_WORLD_SIZE", "3"),
        local("OMPI_COMM_WORLD_LOCAL_SIZE", "3"), job("PMIX_NAMESPACE", "7");
    is_rank_2_of_3("Open MPI");
    const std::string one_job = LaunchEnvironment::read().job;
    const Variable other("PMIX_NAMESPACE", "8");
    EXPECT_NE(LaunchEnvironment::read().job, one_job) << "two jobs would meet";
  }
  {
    const Variable rank("PMI_RANK", "2"), size("PMI_SIZE", "3"), local("MPI_LOCALNRANKS", "3");
    is_rank_2_of_3("MPICH");
    // Its proxies were started by srun, one a host: these are the proxy's.
    const Variable step("SLURM_STEP_ID", "0"), proxy("SLURM_PROCID", "0"), proxies("SLURM_NTASKS", "1");
    is_rank_2_of_3("MPICH in a Slurm job");
  }
  {
    const Variable rank("SLURM_PROCID", "2"), size("SLURM_NTASKS", "3"), job("SLURM_JOB_ID", "5");
    EXPECT_FALSE(LaunchEnvironment::is_there()) << "a batch script is no rank";
    for (const char* special : {"4294967291", "4294967290"}) {  // of a batch script, of salloc's shell
      const Variable step("SLURM_STEP_ID", special);
      EXPECT_FALSE(LaunchEnvironment::is_there()) << special;
    }
    const Variable step("SLURM_STEP_ID", "0"), nodes("SLURM_STEP_NUM_NODES", "1");
    is_rank_2_of_3("Slurm");
    const Variable pmi_rank("PMI_RANK", "2"), pmi_size("PMI_SIZE", "3");
    is_rank_2_of_3("srun --mpi=pmi2");
    const Variable own_rank("RANK", "0"), own_size("WORLD_SIZE", "1"), address("MASTER_ADDR", "localhost"),
        port("MASTER_PORT", "1000");
    EXPECT_EQ(LaunchEnvironment::read().size, 1) << "rondo run's own come first";
  }
}

TEST(LaunchEnvironment, NobodyBecomesAJobOfOneByAccident) {
  const auto read = [] { LaunchEnvironment::read(); };
  {
    const Variable rank("OMPI_COMM_WORLD_RANK", "0");
    EXPECT_NE(error_message(read).find("OMPI_COMM_WORLD_SIZE=\"\""), std::string::npos)
        << error_message(read);
    expect_refused("OMPI_COMM_WORLD_SIZE", {"0", "-1", "four"}, read);
  }
  {
    const Variable size("PMI_SIZE", "4");
    EXPECT_NE(error_message(read).find("PMI_RANK=\"\""), std::string::npos) << error_message(read);
    expect_refused("PMI_RANK", {"4", "-1", "1x"}, read);
  }
}

TEST(LaunchEnvironment, SeveralHostsOfAJobNeedAnAddress) {
  const Variable rank("OMPI_COMM_WORLD_RANK", "1"), size("OMPI_COMM_WORLD_SIZE", "4");
  const auto read = [] { LaunchEnvironment::read(); };
  EXPECT_NE(error_message(read).find("expected MASTER_ADDR and MASTER_PORT"), std::string::npos)
      << "who does not tell how many are here may have them anywhere";
  const Variable local("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  EXPECT_NE(error_message(read).find("expected MASTER_ADDR and MASTER_PORT"), std::string::npos);
  const Variable address("MASTER_ADDR", "10.0.0.1"), port("MASTER_PORT", "4000");
  const LaunchEnvironment launch = LaunchEnvironment::read();
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.job, "");
  EXPECT_EQ(launch.master_address, "10.0.0.1");
  EXPECT_EQ(launch.master_port, 4001);
}

// ---- the same decision on every rank ----

void expect_disagreement(const char* variable, const char* value, std::initializer_list<const char*> words) {
  const UniqueId id = UniqueId::make();
  run_processes(3, [&](int rank) {
    if (rank == 1) ::setenv(variable, value, 1);
    const std::string message = error_message([&] {
      CommunicatorOptions options;
      options.settings.timeout = 20s;
      Communicator::create(id.meeting_place(), rank, 3, options);
    });
    for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << message;
  });
}

TEST(SettingsOfRanks, ThatDifferAreAnErrorOnEveryRank) {
  expect_disagreement("RONDO_BUFFER_BYTES", "65536", {"RONDO_BUFFER_BYTES", "131072", "65536", "rank 1"});
  expect_disagreement("RONDO_STAGING_BYTES", "4096", {"RONDO_STAGING_BYTES", "4096", "rank 1"});
  expect_disagreement("RONDO_SLICE_BYTES", "4096", {"RONDO_SLICE_BYTES", "32768", "4096", "rank 1"});
  expect_disagreement("RONDO_CHECK", "1", {"RONDO_CHECK", "0", "1", "rank 1"});
  expect_disagreement("RONDO_ALGO", "ring", {"RONDO_ALGO", "auto", "ring", "rank 1"});
}

}  // namespace
}  // namespace rondo::test
