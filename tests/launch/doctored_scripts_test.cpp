// Runs the scripts for the built-in machines up to the training program, and lets the doctor look at each rank's
// environment and binding on faked nodes of those machines: it finds nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/base/text/shell_word.h"
#include "terrace/launch/job_script.h"
#include "terrace/launch/slurm.h"
#include "terrace/models/planned_families.h"
#include "tests/doctor/faked_nodes.h"
#include "tests/paths.h"
#include "tests/scratch_folder.h"

namespace terrace::launch {
namespace {

using Environment = std::map<std::string, std::string>;
constexpr int ranks_of_node = 8;

// Shell functions in place of the machine's modules and of Slurm: srun notes its options and starts the ranks of one
// node one after another.
constexpr const char* stand_ins = R"(module() { :; }
srun() {
  while [[ $1 == --* ]]; do echo "$1" >> options.txt; shift; done
  local rank
  for rank in 0 1 2 3 4 5 6 7; do SLURM_LOCALID=$rank "$@" > "rank_$rank.txt" || return; done
}
)";

Environment environment_in(const std::string& printed) {
  Environment environment;
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return environment;
}

// "fe00": "9-15". Masks here have one run of bits.
std::string cores_of_mask(const std::string& mask) {
  const uint64_t bits = std::stoull(mask, nullptr, 16);
  const int first = __builtin_ctzll(bits), count = __builtin_popcountll(bits);
  return fmt::format("{}-{}", first, first + count - 1);
}

class DoctoredScripts : public testing::Test {
 protected:
  // Runs the script of the 22B model on two nodes.
  void run_script(const std::string& machine) {
    JobRequest request{.config_file = "configs/frontier-22b.toml",
                       .overrides = {"layout.pipeline=8", "layout.sharding=zero1"},
                       .machine = machine::load(machine),
                       .nodes = 2,
                       .time_seconds = 7200,
                       .program = (folder_ / "program").string(),
                       .working_folder = folder_.path().string()};
    request.config =
        config::load(tests::source_dir() / request.config_file, models::planned_families(), request.overrides);
    request.machine.launch.account = "ABC123";
    script_ = slurm_script(make_job(request), "terrace launch ..");
    write_text_atomically(folder_ / "job.sh", script_);
    write_text_atomically(folder_ / "stand_ins.sh", stand_ins);
    // Says of itself what a run says that has made all its steps.
    write_text_atomically(folder_ / "program",
                          fmt::format("#!/bin/sh\nenv\necho OPEN_FILES=$(ulimit -Sn)\n"
                                      "printf '  \"state\": \"finished\",\\n  \"step\": {}\\n' > {}/.process.json\n",
                                      request.config.train.steps, request.config.checkpoint.folder));
    const std::string path = shell_word(folder_.path().string());
    const CommandOutput output =
        output_of(fmt::format("cd {0} && chmod +x program && ulimit -Sn 1024 && env -i PATH=/usr/bin:/bin "
                              "HOME=/ccs/home/ada USER=ada SLURM_JOB_ID=17 "
                              "SLURM_JOB_NUM_NODES=2 BASH_ENV={0}/stand_ins.sh bash job.sh",
                              path));
    ASSERT_EQ(output.code, 0) << output.output << script_;
    options_ = read_text(folder_ / "options.txt");
    for (int rank = 0; rank < ranks_of_node; ++rank) {
      environments_.push_back(environment_in(read_text(folder_ / fmt::format("rank_{}.txt", rank))));
      // The limit is the one that the doctor asks for, or all that this machine allows.
      rlimit own{};
      ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &own), 0);
      EXPECT_EQ(environments_.back().at("OPEN_FILES"), std::to_string(std::min<rlim_t>(65'536, own.rlim_max)));
    }
  }

  // The value behind NAME= in the script's options for sbatch, or "".
  std::string sbatch_option(const std::string& name) const {
    const std::string begin = "\n#SBATCH " + name + "=";
    const size_t at = script_.find(begin);
    if (at == std::string::npos) return "";
    const size_t from = at + begin.size();
    return script_.substr(from, script_.find('\n', from) - from);
  }

  // The value behind NAME= in srun's options, or "".
  std::string option(const std::string& name) const {
    std::istringstream lines(options_);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(name + "=")) return line.substr(name.size() + 1);
    }
    return "";
  }

  const ScratchFolder folder_;
  std::string script_, options_;
  std::vector<Environment> environments_;  // of the node's ranks
};

// The nodes of both have the same dies and cores.
class OnDies : public DoctoredScripts, public testing::WithParamInterface<const char*> {};

TEST_P(OnDies, PassTheDoctor) {
  const std::string machine = GetParam();
  run_script(machine);
  doctor::FrontierJob job;
  const std::string network = sbatch_option("--network");
  std::istringstream masks(option("--cpu-bind").empty() ? ""
                                                        : option("--cpu-bind").substr(std::string("mask_cpu:").size()));
  for (size_t rank = 0; rank < ranks_of_node; ++rank) {
    const Environment usual = job[rank].view.environment;
    Environment& environment = job[rank].view.environment;
    environment = environments_[rank];
    for (const char* name : {"SLURM_JOB_END_TIME", "NCCL_NET_PLUGIN"})
      environment[name] = usual.at(name);  // of a module
    environment["SLURM_CLUSTER_NAME"] = machine;
    // Slurm knows sbatch's options and does not tell them srun and the ranks, so the script has to.
    EXPECT_EQ(environment.contains("SLURM_NETWORK") ? environment["SLURM_NETWORK"] : "", network);
    job[rank].view.slurm_job = [network](const std::string& id) {
      return fmt::format("JobId={} Network={} Power=", id, network.empty() ? "(null)" : network);
    };
    if (option("--gpu-bind") == "closest") environment["ROCR_VISIBLE_DEVICES"] = usual.at("ROCR_VISIBLE_DEVICES");
    std::string mask;
    if (std::getline(masks, mask, ',')) job[rank].set_cores(cores_of_mask(mask));
  }
  const doctor::Diagnosis diagnosis = job.diagnose();
  EXPECT_THAT(diagnosis.findings, testing::SizeIs(0)) << text_of(diagnosis) << script_;
  // The doctor looks at the environment at all: a wrong one is found.
  job.on_all([](doctor::FakedNode& rank) { rank.view.environment["NCCL_NET"] = "Socket"; });
  EXPECT_THAT(job.diagnose().findings, testing::SizeIs(1));
}

INSTANTIATE_TEST_SUITE_P(Machines, OnDies, testing::Values("frontier", "lumi"));

TEST_F(DoctoredScripts, OnNodesOfNvidiaPassTheDoctor) {
  run_script("dgx-h100");
  // Two sockets of 56 cores with two hardware threads each; core i has the CPUs i and 112 + i. Slurm counts hardware
  // threads, unless sbatch and srun are told not to use the second ones.
  const std::string hint = "nomultithread";
  const bool counts_cores = sbatch_option("--hint") == hint && option("--hint") == hint && option("--cpu-bind").empty();
  const int cpus = std::stoi(option("--cpus-per-task"));
  const int cores = counts_cores ? cpus : (cpus + 1) / 2;
  ASSERT_LE(ranks_of_node * cores, 112);
  EXPECT_EQ(option("--distribution"), "block:block");
  std::vector<std::unique_ptr<doctor::FakedNode>> nodes;
  doctor::JobReadings job;
  for (int rank = 0; rank < ranks_of_node; ++rank) {
    doctor::FakedNode& node = *nodes.emplace_back(std::make_unique<doctor::FakedNode>());
    write_workstation(node);
    node.write("/sys/devices/system/cpu/online", "0-223\n");
    node.write("/sys/devices/system/node/node0/cpulist", "0-55,112-167\n");
    node.write("/sys/devices/system/node/node1/cpulist", "56-111,168-223\n");
    node.write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    node.set_limits("65536", "unlimited");
    std::vector<std::string> buses;
    for (int gpu = 0; gpu < ranks_of_node; ++gpu) {
      buses.push_back(fmt::format("0000:{}b:00.0", gpu + 1));
      add_gpu(node, buses.back(), "0x10de", "0x030200", gpu / 4);
    }
    // All ranks see all GPUs and take that of their number.
    node.view.gpus = std::vector<std::string>{buses[static_cast<size_t>(rank)]};
    node.view.environment = environments_[static_cast<size_t>(rank)];
    const int first = cores * rank, last = first + cores - 1;
    node.set_cores(counts_cores ? fmt::format("{}-{}", first, last)
                                : fmt::format("{}-{},{}-{}", first, last, 112 + first, 112 + last));
    job.push_back(node.read(rank, "/lustre/run"));
  }
  const doctor::Diagnosis diagnosis = diagnose(job);
  EXPECT_THAT(diagnosis.findings, testing::SizeIs(0)) << text_of(diagnosis) << script_;
  EXPECT_THAT(diagnosis.checks, testing::Contains("near cores"));
}

}  // namespace
}  // namespace terrace::launch
