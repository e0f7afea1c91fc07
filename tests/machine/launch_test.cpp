// Tests [launch] of machines: what is read, written back and refused, and what the built-in machines say.
#include <gtest/gtest.h>

#include "tests/machine/machine_cases.h"

namespace terrace::machine {
namespace {

// The line numbers below count from that of [launch].
constexpr int launch_line = 46;

std::string with_launch(const std::string& keys) { return valid_toml + "[launch]\n" + keys; }

const std::string all_keys = R"(partition = "gpu"
account = "abc123"
needs_account = true
longest_time = "1d12h"
longest_times = [{nodes = 91, time = "2h"}, {partition = "long", nodes = 64, time = "1d"}]
cores_per_rank = 7
mpi = ""
sbatch_options = ["--constraint=nvme", "--core-spec=8"]
srun_options = ["--gpu-bind=closest"]
modules = ["rocm/7.1.1"]
environment = ["A=1", "B=$HOME/x y"]
one_node_environment = ["A=2"]
rank_environment = ["ROCR_VISIBLE_DEVICES=$SLURM_LOCALID"]
node_disk = "/mnt/bb/$USER"
node_disk_size = "2 TB"
)";

TEST(MachineLaunch, ReadsEveryKeyAndWritesItBack) {
  const Machine machine = parse(with_launch(all_keys), "ours.toml");
  const Launch expected{.partition = "gpu",
                        .account = "abc123",
                        .needs_account = true,
                        .longest_seconds = 129'600,
                        .longest_times = {{"", 91, 7200}, {"long", 64, 86'400}},
                        .cores_per_rank = 7,
                        .mpi = "",
                        .sbatch_options = {"--constraint=nvme", "--core-spec=8"},
                        .srun_options = {"--gpu-bind=closest"},
                        .modules = {"rocm/7.1.1"},
                        .environment = {"A=1", "B=$HOME/x y"},
                        .one_node_environment = {"A=2"},
                        .rank_environment = {"ROCR_VISIBLE_DEVICES=$SLURM_LOCALID"},
                        .node_disk = "/mnt/bb/$USER",
                        .node_disk_bytes = 2e12};
  EXPECT_EQ(machine.launch, expected);
  EXPECT_EQ(parse(dump(machine), "dump.toml"), machine);
}

TEST(MachineLaunch, IsOptionalAndAPartOfTheDescription) {
  const Machine without = parse(valid_toml, "ours.toml");
  EXPECT_EQ(without.launch, Launch{});
  EXPECT_EQ(dump(without).find("[launch]"), std::string::npos);
  EXPECT_NE(without, parse(with_launch("partition = \"gpu\"\n"), "ours.toml"));
}

struct WrongLaunch {
  std::string keys, expected;
};

class RefusedLaunch : public testing::TestWithParam<WrongLaunch> {};

TEST_P(RefusedLaunch, NamesTheLineAndTheWayOut) {
  EXPECT_EQ(complaint(with_launch(GetParam().keys)),
            "ours.toml:" + std::to_string(launch_line + 1) + ":" + GetParam().expected);
}

const std::vector<WrongLaunch> wrong_launches = {
    {"partitoin = \"gpu\"\n", "1: unknown key launch.partitoin; did you mean partition?"},
    {"partition = \"gpu; rm -r .\"\n",
     "13: launch.partition = \"gpu; rm -r .\" must be a name of letters, digits and . _ , : + -"},
    {"environment = [\"OMP_NUM_THREADS\"]\n",
     "15: launch.environment = [ \"OMP_NUM_THREADS\" ] has \"OMP_NUM_THREADS\", which is not NAME=VALUE; write for "
     "example "
     "\"OMP_NUM_THREADS=7\""},
    {"rank_environment = ['A=\"x']\n",
     "20: launch.rank_environment = [ \"A=\\\"x\" ] has A, whose value has a quotation mark, a backslash or a new "
     "line; "
     "leave "
     "them out"},
    {"sbatch_options = [\"nvme\"]\n",
     "18: launch.sbatch_options = [ \"nvme\" ] has \"nvme\", which is not one option without blanks; write for example "
     "\"--constraint=nvme\""},
    {"sbatch_options = [\"--time=10\"]\n",
     "18: launch.sbatch_options = [ \"--time=10\" ] has \"--time=10\", but terrace launch writes --time itself; leave "
     "it "
     "out"},
    {"srun_options = [\"--x=$(date)\"]\n",
     "16: launch.srun_options = [ \"--x=$(date)\" ] has \"--x=$(date)\" with a character that a shell takes for its "
     "own; "
     "leave "
     "it out"},
    {"modules = [\"rocm && true\"]\n",
     "11: launch.modules = [ \"rocm && true\" ] has \"rocm && true\"; write the module's name and version, as in "
     "\"rocm/7.1.1\""},
    {"node_disk = \"bb\"\nnode_disk_size = \"1 TB\"\n",
     "13: launch.node_disk = \"bb\" must be a folder that begins with /, without blanks, as in \"/mnt/bb/$USER\""},
    {"node_disk = \"/mnt/bb\"\n",
     "13: launch.node_disk = \"/mnt/bb\" needs node_disk_size, what a job may fill there, such as \"1 TB\""},
    {"longest_times = [{nodes = 64}]\n",
     "18: launch.longest_times[1].time is missing; add to [[launch.longest_times]] a line such as time = \"2h\""},
    {"longest_times = [{nodes = 64, time = \"2h\"}, {nodes = 64, time = \"3h\"}]\n",
     "17: launch.longest_times has two times for jobs of at most 64 nodes; leave one of them out"},
    {"longest_times = \"2h\"\n",
     "17: launch.longest_times = \"2h\" must be a list of tables, each written [[launch.longest_times]]"},
    {"cores_per_rank = -1\n",
     "18: launch.cores_per_rank = -1 must be a whole number from 0 to 1,024; the nearest is 0"},
};

INSTANTIATE_TEST_SUITE_P(MachineLaunch, RefusedLaunch, testing::ValuesIn(wrong_launches));

TEST(MachineLaunch, BuiltInMachinesSayHowTheirJobsAreStarted) {
  const Launch frontier = load("frontier").launch, lumi = load("lumi").launch, dgx = load("dgx-h100").launch;
  EXPECT_EQ(frontier.cores_per_rank * 8 + 8, 64);  // and a core of each of the 8 L3 regions for the system
  EXPECT_TRUE(frontier.needs_account);
  EXPECT_EQ(frontier.node_disk, "/mnt/bb/$USER");
  EXPECT_EQ(lumi.longest_seconds, 2 * 86'400);
  EXPECT_EQ(lumi.rank_environment, std::vector<std::string>{"ROCR_VISIBLE_DEVICES=$SLURM_LOCALID"});
  EXPECT_EQ(dgx.cores_per_rank * 8, 112);
  EXPECT_EQ(dgx.mpi, "pmix");
  EXPECT_EQ(load("laptop").launch, Launch{});
}

}  // namespace
}  // namespace terrace::machine
