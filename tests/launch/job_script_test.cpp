// Tests the scripts and commands for the built-in machines in parts, and the numbers on which they are based.
#include "terrace/launch/job_script.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/shell_word.h"
#include "terrace/launch/slurm.h"
#include "terrace/models/planned_families.h"
#include "tests/paths.h"
#include "tests/scratch_folder.h"

namespace terrace::launch {
namespace {

const std::vector<std::string> layout = {"layout.pipeline=8", "layout.sharding=zero1"};

// The 22B model on two nodes of eight devices.
JobRequest request_for(const std::string& machine, const std::vector<std::string>& settings = layout) {
  const std::filesystem::path file = tests::source_dir() / "configs/frontier-22b.toml";
  return {.config_file = "configs/frontier-22b.toml",
          .overrides = settings,
          .config = config::load(file, models::planned_families(), settings),
          .machine = machine::load(machine),
          .nodes = 2,
          .time_seconds = 7200,
          .program = "/opt/terrace/bin/terrace",
          .working_folder = "/lustre/project"};
}

std::string script_of(const JobRequest& request) { return slurm_script(make_job(request), "terrace launch .."); }

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    const size_t found = text.find(part, at);
    EXPECT_NE(found, std::string::npos) << "missing, or not behind the parts before it: " << part << "\n" << text;
    if (found != std::string::npos) at = found;
  }
}

void expect_valid_bash(const std::string& script) {
  const ScratchFolder folder;
  write_text_atomically(folder / "job.sh", script);
  const CommandOutput checked = output_of("bash -n " + shell_word((folder / "job.sh").string()));
  EXPECT_EQ(checked.code, 0) << checked.output << script;
}

std::string refusal_of(const JobRequest& request) {
  try {
    make_job(request);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(JobScript, ForFrontierBindsEachRankToItsClosestDie) {
  JobRequest request = request_for("frontier");
  request.machine.launch.account = "ABC123";
  const std::string script = script_of(request);
  expect_valid_bash(script);
  expect_parts(script, {"#!/bin/bash\n# terrace launch ..\n",
                        "#SBATCH --job-name=terrace-frontier-22b\n",
                        "#SBATCH --nodes=2\n",
                        "#SBATCH --ntasks-per-node=8\n",
                        "#SBATCH --cpus-per-task=7\n",
                        "#SBATCH --time=02:00:00\n",
                        "#SBATCH --signal=USR1@",
                        "#SBATCH --requeue\n",
                        "#SBATCH --open-mode=append\n",
                        "#SBATCH --chdir=/lustre/project\n",
                        "#SBATCH --output=%x-%j.log\n",
                        "#SBATCH --partition=batch\n",
                        "#SBATCH --account=ABC123\n",
                        "#SBATCH --core-spec=8\n",
                        "#SBATCH --constraint=nvme\n",
                        "#SBATCH --network=disable_rdzv_get\n",
                        "run=/lustre/project/runs/frontier-22b\n",
                        "module load PrgEnv-gnu/8.7.0",
                        "export NCCL_NET=\"OFI\"\n",
                        "export FI_CXI_RDZV_PROTO=\"alt_read\"\n",
                        "export SLURM_NETWORK=\"disable_rdzv_get\"\n",
                        "export MIOPEN_USER_DB_PATH=\"/tmp/terrace-miopen-$SLURM_JOB_ID\"\n",
                        "export SLURM_EXPORT_ENV=ALL SLURM_WAIT=${SLURM_WAIT:-300}\n",
                        "ulimit -Sn 65536 2>/dev/null",
                        "srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=7 --gpus-per-task=1 "
                        "--gpu-bind=closest \\\n",
                        "/opt/terrace/bin/terrace train configs/frontier-22b.toml --set layout.pipeline=8 --set "
                        "layout.sharding=zero1 --set \"checkpoint.staging=/mnt/bb/$USER\" --set "
                        "\"data.stage=/mnt/bb/$USER\" --set data.stage_bytes=",
                        " --resume auto\ncode=$?\n"});
  EXPECT_EQ(script.find("Socket"), std::string::npos);
}

TEST(JobScript, ForOneNodeOfFrontierUsesNoNetwork) {
  JobRequest request = request_for("frontier", {"layout.sharding=zero3", "model.layers=8"});
  request.nodes = 1;
  expect_parts(script_of(request), {"export NCCL_NET=\"OFI\"\n", "export NCCL_NET=\"Socket\"\n"});
}

TEST(JobScript, ForLumiBindsByMasksAndGivesEachRankTheDieOfItsNumber) {
  const std::string script = script_of(request_for("lumi"));
  expect_valid_bash(script);
  expect_parts(script, {"#SBATCH --partition=standard-g\n", "#SBATCH --gpus-per-node=8\n",
                        "srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=7 "
                        "--cpu-bind=mask_cpu:fe000000000000,fe00000000000000,fe0000,fe000000,fe,fe00,fe00000000,"
                        "fe0000000000 \\\n",
                        "bash -c 'export ROCR_VISIBLE_DEVICES=\"$SLURM_LOCALID\"; exec \"$@\"' rank \\\n",
                        "/opt/terrace/bin/terrace train "});
  EXPECT_EQ(script.find("--account"), std::string::npos);
  EXPECT_EQ(script.find("checkpoint.staging"), std::string::npos);  // its nodes have no disk
}

// LUMI's stacks have versions, and each project installs RCCL's plug-in: the script names none, and says so.
TEST(JobScript, ForLumiLoadsTheUsersModulesAndStopsWithoutThePlugIn) {
  JobRequest request = request_for("lumi");
  EXPECT_EQ(script_of(request).find("module load"), std::string::npos);
  expect_parts(script_of(request), {"export NCCL_NET=\"OFI\"\n"});
  const std::string note = summary_of(make_job(request));
  EXPECT_NE(note.find("the job loads no modules, since machines/lumi.toml names none ([launch] modules): ROCm, MPI, "
                      "and the plug-in by "
                      "which RCCL uses the network must be found without them, or name them in a copy of its file, or "
                      "as --module NAME"),
            std::string::npos)
      << note;
  request.machine.launch.modules = {"LUMI/24.03", "partition/G", "rocm", "aws-ofi-rccl"};
  expect_parts(script_of(request), {"module load LUMI/24.03 partition/G rocm aws-ofi-rccl || "});
  EXPECT_EQ(summary_of(make_job(request)).find("loads no modules"), std::string::npos);
  request = request_for("lumi", {"layout.sharding=zero3", "model.layers=8"});
  request.nodes = 1;
  expect_parts(script_of(request), {"export NCCL_NET=\"OFI\"\n", "export NCCL_NET=\"Socket\"\n"});
  EXPECT_EQ(summary_of(make_job(request_for("frontier"))).find("loads no modules"), std::string::npos);
}

TEST(JobScript, PassesOptionsOnToSbatchAfterThoseOfTheMachine) {
  JobRequest request = request_for("frontier");
  request.sbatch_options = {"--qos=debug", "--mem=480G", "--exclude=node[3,7]", "--mail-user=ada@example.org",
                            "--constraint=a100"};
  expect_parts(script_of(request),
               {"#SBATCH --constraint=nvme\n", "#SBATCH --qos=debug\n#SBATCH --mem=480G\n#SBATCH --exclude=node[3,7]\n",
                "#SBATCH --mail-user=ada@example.org\n#SBATCH --constraint=a100\n"});
  for (const auto& [option, words] : {std::pair{"--time=3", "but terrace launch writes --time itself; leave it out"},
                                      std::pair{"--qos=a b", "is not one option without blanks"},
                                      std::pair{"--mail-user=$(id)", "a shell takes for its own"}}) {
    request.sbatch_options = {option};
    EXPECT_NE(refusal_of(request).find(words), std::string::npos) << refusal_of(request);
  }
}

TEST(JobScript, ForDgxGivesAllRanksOfANodeAllItsGpus) {
  const std::string script = script_of(request_for("dgx-h100"));
  expect_valid_bash(script);
  expect_parts(script, {"#SBATCH --cpus-per-task=14\n", "#SBATCH --gpus-per-node=8\n", "#SBATCH --exclusive\n",
                        "#SBATCH --hint=nomultithread\n",
                        "srun --mpi=pmix --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=14 "
                        "--distribution=block:block --hint=nomultithread "});
  EXPECT_EQ(script.find("--cpu-bind"), std::string::npos);  // beside it --hint has no effect
  EXPECT_EQ(script.find("gpus-per-task"), std::string::npos);
  EXPECT_EQ(script.find("#SBATCH --partition"), std::string::npos);
}

TEST(JobScript, QuotesWhatAShellWouldDivide) {
  JobRequest request = request_for("dgx-h100");
  request.config_file = "my runs/a'b.toml";
  request.overrides.push_back("data.train=[\"a b\", \"$HOME/c\"]");
  request.config.checkpoint.folder = "runs/it's one";
  request.working_folder = "/lustre/our project";
  const std::string script = script_of(request);
  expect_valid_bash(script);
  expect_parts(script, {"#SBATCH --job-name=terrace-it-s-one\n", "#SBATCH --chdir='/lustre/our project'\n"});
  // The shell gives the words back as they were.
  const size_t begin = script.find("/opt/terrace"), end = script.find('\n', begin);
  const CommandOutput words = output_of("printf '%s|' " + script.substr(begin, end - begin));
  EXPECT_EQ(words.output,
            "/opt/terrace/bin/terrace|train|my runs/a'b.toml|--set|layout.pipeline=8|--set|layout.sharding=zero1|--set|"
            "data.train=[\"a b\", \"$HOME/c\"]|--resume|auto|");
}

TEST(JobScript, SpreadsAnArchiveBeforeItTrainsWithWhatIsInIt) {
  JobRequest request = request_for("frontier");
  EXPECT_EQ(script_of(request).find("sbcast"), std::string::npos);
  request.archive = "/lustre/our project/terrace.tar.gz";
  const std::string script = script_of(request);
  expect_valid_bash(script);
  expect_parts(
      script,
      {"installed=\"/mnt/bb/$USER/terrace-$SLURM_JOB_ID\"\n",
       "once_a_node() { timeout \"$1\" srun --mpi=none --nodes=2 --ntasks=2 --ntasks-per-node=1 \"${@:2}\"; }\n",
       "sbcast --force --preserve '/lustre/our project/terrace.tar.gz' \"$installed.tar\" &&\n", "exit 1; }\n",
       "srun --nodes=2 --ntasks=16 ", "\"$installed/bin/terrace\" train configs/frontier-22b.toml ",
       "code=$?\nonce_a_node 20 rm -rf \"$installed\"\n"});
  request = request_for("lumi");
  request.archive = "terrace.tar.gz";
  expect_parts(script_of(request), {"installed=\"/tmp/terrace-$SLURM_JOB_ID\"\n"});
}

TEST(JobScript, OfAChainHasBothEnds) {
  JobRequest request = request_for("frontier");
  EXPECT_EQ(script_of(request).find("scontrol requeue"), std::string::npos);
  request.until_done = true;
  const std::string script = script_of(request);
  expect_valid_bash(script);
  expect_parts(script,
               {"before=$(newest_step)", "srun ", "after=$(newest_step)", "scontrol requeue \"$SLURM_JOB_ID\""});
}

TEST(JobScript, WithSparesKeepsTheJobOfALostNodeAndTrainsUnderASupervisor) {
  JobRequest request = request_for("frontier");
  request.spares = 1;
  request.machine_name = "my frontier.toml";
  request.until_done = true;
  const std::string script = script_of(request);
  expect_valid_bash(script);
  expect_parts(script, {"#SBATCH --nodes=3\n", "#SBATCH --no-kill\n",
                        "/opt/terrace/bin/terrace launch configs/frontier-22b.toml --nodes 2 --spares 1 --machine "
                        "'my frontier.toml' --program /opt/terrace/bin/terrace --set layout.pipeline=8 --set "
                        "layout.sharding=zero1",
                        " --run\ncode=$?\n"});
  EXPECT_EQ(script.find("\nsrun"), std::string::npos) << script;
}

TEST(RanksCommand, StartsTheRanksOnTheNodesThatTrain) {
  JobRequest request = request_for("frontier");
  const std::string step = ranks_command(make_job(request), {"b", "c"});
  expect_valid_bash(step);
  expect_parts(
      step, {"export ", "; exec srun --overlap --wait=20 --nodelist=b,c ", "--nodes=2 --ntasks=16 --ntasks-per-node=8 ",
             "/opt/terrace/bin/terrace train configs/frontier-22b.toml ", "--resume auto"});
  request.with_slurm = false;
  const std::string command = ranks_command(make_job(request), {"b", "c"});
  expect_valid_bash(command);
  expect_parts(command, {"exec mpirun -n 16 --host b:8,c:8 --map-by ppr:8:node", "--resume auto"});
}

TEST(KeeperCommand, StartsOneKeeperOnTheNode) {
  JobRequest request = request_for("frontier");
  EXPECT_EQ(keeper_command(make_job(request), "b"),
            "exec srun --overlap --mpi=none --nodes=1 --ntasks=1 --nodelist=b /opt/terrace/bin/terrace keep-node "
            "/lustre/project/runs/frontier-22b --memory /dev/shm");
  request.with_slurm = false;
  EXPECT_EQ(keeper_command(make_job(request), "b"),
            "exec mpirun -n 1 --host b:1 /opt/terrace/bin/terrace keep-node /lustre/project/runs/frontier-22b --memory "
            "/dev/shm");
}

TEST(MpirunCommand, HasARankForEachDeviceAndTheEnvironment) {
  const std::string command = mpirun_command(make_job(request_for("lumi")));
  EXPECT_EQ(command.find("mpirun -n 16 --map-by ppr:8:node:PE=7 -x OMP_NUM_THREADS=\"7\" "), 0U) << command;
  expect_parts(command, {"-x HSA_XNACK=\"0\"", "/opt/terrace/bin/terrace train configs/frontier-22b.toml "});
}

TEST(Job, TheSignalLeavesTimeForAStepAndASaveTwice) {
  EXPECT_EQ(signal_seconds_for(1, 2), 120);
  EXPECT_EQ(signal_seconds_for(60, 40), 300);  // 2 * 100 + 60, in whole minutes
  const Job job = make_job(request_for("frontier"));
  EXPECT_GE(job.signal_seconds, 2 * (job.prediction.step_seconds + job.save_seconds) + 60);
  EXPECT_EQ(job.ranks, 16);
  // 12 bytes for each parameter, at 5 GB/s a node, and half a millisecond for each of three files of 16 ranks.
  EXPECT_EQ(job.checkpoint_bytes, 12 * static_cast<double>(job.prediction.parameters));
  EXPECT_DOUBLE_EQ(job.save_seconds, job.checkpoint_bytes / 10e9 + 0.0005 * 3 * 16);
}

TEST(Job, WithoutATimeIsAsLongAsTheRunOrAsTheSiteAllows) {
  JobRequest request = request_for("lumi");
  request.time_seconds = 0;
  EXPECT_EQ(make_job(request).time_seconds, 2 * 86'400);  // 500,000 steps take longer
  request.config.train.steps = 10;
  request.config.optimizer.warmup_steps = 1;
  const Job job = make_job(request);
  EXPECT_GE(job.time_seconds, 1.25 * job.run_seconds + job.signal_seconds);
  EXPECT_LT(job.time_seconds, 3 * 3600);
}

// The 22B model on so many nodes, with 4 sequences for each.
JobRequest request_on_frontier(int64_t nodes) {
  JobRequest request = request_for(
      "frontier", {"layout.pipeline=8", "layout.sharding=zero1", fmt::format("train.global_batch={}", 4 * nodes)});
  request.nodes = nodes;
  request.time_seconds = 0;
  return request;
}

TEST(Job, OnFrontierTakesNoLongerThanJobsOfItsNodesMay) {
  EXPECT_EQ(make_job(request_on_frontier(2)).time_seconds, 2 * 3600);
  EXPECT_EQ(make_job(request_on_frontier(91)).time_seconds, 2 * 3600);
  EXPECT_EQ(make_job(request_on_frontier(92)).time_seconds, 6 * 3600);
  EXPECT_EQ(make_job(request_on_frontier(184)).time_seconds, 12 * 3600);
  JobRequest request = request_on_frontier(92);
  request.time_seconds = 6 * 3600;
  EXPECT_EQ(make_job(request).time_seconds, 6 * 3600);
  request.time_seconds += 1;
  EXPECT_EQ(refusal_of(request),
            "--time 06:00:01 is longer than jobs of 92 to 183 nodes in partition batch of frontier may be, 06:00:00 "
            "([launch] longest_times); give at most that, with --until-done for as many jobs as the run needs");
  request = request_on_frontier(2);
  request.until_done = true;
  request.time_seconds = 24 * 3600;
  EXPECT_EQ(refusal_of(request),
            "--time 1-00:00:00 is longer than jobs of 1 to 91 nodes in partition batch of frontier may be, 02:00:00 "
            "([launch] longest_times); give at most that, or --partition extended, in which jobs of 1 to 64 nodes may "
            "take 1-00:00:00");
  request.machine.launch.partition = "extended";
  EXPECT_EQ(refusal_of(request), "");
}

TEST(Job, WhoseLongestTimeIsTooShortToTrainInIsRefused) {
  JobRequest request = request_on_frontier(2);
  request.machine.launch.longest_times = {{"", 4, 60}};
  EXPECT_EQ(refusal_of(request).find("jobs of 1 to 4 nodes in partition batch of frontier may take 00:01:00, too short "
                                     "to train in: a step and a save take "),
            0U)
      << refusal_of(request);
}

TEST(Job, ATimeThatIsTooShortOrTooLongIsRefusedWithAnother) {
  JobRequest request = request_for("lumi");
  request.time_seconds = 3 * 86'400;
  EXPECT_EQ(refusal_of(request),
            "--time 3-00:00:00 is longer than jobs on lumi may be, 2-00:00:00 ([launch] longest_time); give at most "
            "that, with --until-done for as many jobs as the run needs");
  request.time_seconds = 60;
  const std::string text = refusal_of(request);
  EXPECT_EQ(text.find("--time 00:01:00 is too short to train in: the run is asked to save "), 0U) << text;
  EXPECT_NE(text.find("; give at least 00:"), std::string::npos) << text;
  request.time_seconds = 7200;
  request.signal_seconds = 1;
  EXPECT_EQ(refusal_of(request).find("--signal-before 1 is less than a step ("), 0U) << refusal_of(request);
}

TEST(Job, IsRefusedAsAPlanIs) {
  JobRequest request = request_for("frontier", {"layout.sharding=ddp"});
  try {
    make_job(request);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code, ExitCode::infeasible);
    EXPECT_NE(std::string(error.what()).find("stage 0 needs "), std::string::npos) << error.what();
    EXPECT_THAT(error.what(), testing::EndsWith("; --best launches the fastest layout that fits"));
  }
  request = request_for("frontier");
  request.nodes = 9409;
  EXPECT_NE(refusal_of(request).find("more than the 75264 devices of frontier"), std::string::npos)
      << refusal_of(request);
  EXPECT_EQ(refusal_of(request).find("--best"), std::string::npos);  // no layout would help
  request = request_for("frontier", {"layout.pipeline=8", "train.global_batch=2", "train.micro_batch=2"});
  EXPECT_THAT(refusal_of(request), testing::AllOf(testing::HasSubstr("train.micro_batch"),
                                                  testing::EndsWith("; --best launches the fastest layout that fits")));
}

TEST(Job, CountsTheCheckpointsThatFitAndSaysHowManyToKeep) {
  const ScratchFolder folder;
  JobRequest request = request_for("frontier");
  request.working_folder = folder.path();
  const Job job = make_job(request);
  const double free = static_cast<double>(std::filesystem::space(folder.path()).available);
  ASSERT_TRUE(job.checkpoints_that_fit);
  EXPECT_NEAR(static_cast<double>(*job.checkpoints_that_fit), free / job.checkpoint_bytes, 1);
  request.config.checkpoint.keep = *job.checkpoints_that_fit + 10;
  const std::string summary = summary_of(make_job(request));
  EXPECT_NE(summary.find("are free at " + folder.path().string()), std::string::npos) << summary;
}

TEST(Job, StagesOnANodesDiskOnlyWhatFitsThere) {
  JobRequest request = request_for("frontier");
  EXPECT_TRUE(make_job(request).stages);
  request.machine.launch.node_disk_bytes = 1e9;
  const Job small = make_job(request);
  EXPECT_FALSE(small.stages);
  EXPECT_NE(summary_of(small).find("checkpoints are not staged on /mnt/bb/$USER"), std::string::npos);
  EXPECT_EQ(small.data_stage_bytes, 1'000'000'000);
  request = request_for("frontier");
  request.config.checkpoint.staging = "/tmp";
  EXPECT_FALSE(make_job(request).stages);
}

TEST(Job, StagesDataInTheRoomThatTwoCheckpointsLeave) {
  JobRequest request = request_for("frontier");
  const Job job = make_job(request);
  // Each of the two nodes has half of each checkpoint.
  EXPECT_EQ(job.data_stage_bytes, static_cast<int64_t>(1.92e12 - job.checkpoint_bytes));
  EXPECT_EQ(make_job(request_for("lumi")).data_stage_bytes, 0);  // its nodes have no disk
  // A folder that the user names stands, also an empty one by which nothing is staged.
  std::vector<std::string> settings = layout;
  settings.emplace_back("data.stage=/tmp");
  EXPECT_EQ(make_job(request_for("frontier", settings)).data_stage_bytes, 0);
  settings.back() = "data.stage=\"\"";
  EXPECT_EQ(make_job(request_for("frontier", settings)).data_stage_bytes, 0);
  // An archive and what is unpacked from it take room too.
  const ScratchFolder folder;
  write_text_atomically(folder / "terrace.tar.gz", std::string(1000, 'x'));
  request.archive = (folder / "terrace.tar.gz").string();
  EXPECT_EQ(make_job(request).data_stage_bytes, job.data_stage_bytes - 5000);
}

TEST(Job, SaysWhereItsNumbersAreThoseOfADeviceThatIsNotUsed) {
  const std::string way_out = "measure a node in a short job, terrace calibrate --device cpu --output FILE";
  const auto summary = [&](const std::string& machine, std::optional<std::string> kernels_for,
                           const std::string& device) {
    std::vector<std::string> settings = layout;
    settings.push_back("train.device=" + device);
    JobRequest request = request_for(machine, settings);
    request.kernels_for = std::move(kernels_for);
    return summary_of(make_job(request));
  };
  EXPECT_THAT(summary("frontier", std::nullopt, "auto"), testing::Not(testing::HasSubstr(way_out)));
  EXPECT_THAT(summary("frontier", "AMD", "auto"), testing::Not(testing::HasSubstr(way_out)));
  EXPECT_THAT(summary("dgx-h100", "NVIDIA", "auto"), testing::Not(testing::HasSubstr(way_out)));
  EXPECT_THAT(summary("dgx-h100", "NVIDIA", "cpu"), testing::HasSubstr("train.device = \"cpu\", so the run computes on "
                                                                       "cores"));
  for (const char* kernels_for : {"", "NVIDIA"}) {
    const std::string text = summary("frontier", kernels_for, "auto");
    EXPECT_THAT(text,
                testing::HasSubstr("this program has no kernels for one die (GCD) of an AMD Instinct MI250X, so"));
    EXPECT_THAT(text, testing::HasSubstr(way_out));
  }
  EXPECT_THAT(summary("dgx-h100", "AMD", "auto"), testing::HasSubstr("no kernels for NVIDIA H100 SXM5 80GB, so"));
  EXPECT_THAT(summary("dgx-h100", "", "cuda"), testing::HasSubstr("the job will refuse train.device = \"cuda\""));
  // A machine of cores is what it is predicted to be.
  JobRequest request = request_for("dgx-h100");
  request.machine.device.launch_seconds = 0;
  request.kernels_for = "";
  EXPECT_THAT(summary_of(make_job(request)), testing::Not(testing::HasSubstr(way_out)));
}

}  // namespace
}  // namespace terrace::launch
