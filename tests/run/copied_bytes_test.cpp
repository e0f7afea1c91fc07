// Compares the bytes that a plan counts for copies of the states with the sizes of the files that runs leave.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/base/files/memory_folder.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/machine/machine.h"
#include "terrace/machine/software.h"
#include "terrace/mesh/shards.h"
#include "terrace/plan/estimate.h"
#include "terrace/plan/prediction.h"
#include "terrace/run/run_training.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

namespace fs = std::filesystem;

// The values in the .safetensors files of a folder: what follows the header, whose length their first eight bytes say.
int64_t value_bytes(const fs::path& folder, const std::string& of = "") {
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path& path = entry.path();
    if (path.string().find("/.next/") != std::string::npos) continue;  // the memory of the copy before
    if (path.extension() != ".safetensors" || !path.filename().string().starts_with(of)) continue;
    const std::string text = read_text(path);
    uint64_t header = 0;
    std::memcpy(&header, text.data(), sizeof header);
    bytes += std::ssize(text) - static_cast<int64_t>(sizeof header + header);
  }
  return bytes;
}

class CopiedBytes : public train::TinyRun {
 protected:
  config::Config config_of(const std::vector<std::string>& more) const {
    std::vector<std::string> keys = {"train.threads=1",
                                     "train.steps=4",
                                     "train.global_batch=8",
                                     "train.micro_batch=1",
                                     "model.tied_head=false",
                                     "model.width=96",
                                     "checkpoint.memory_folder=" + (folder_ / "memory").string(),
                                     "checkpoint.folder=" + (folder_ / "run").string()};
    keys.insert(keys.end(), more.begin(), more.end());
    return tiny_config(keys);
  }

  // The nodes' files of one copy.
  std::vector<int64_t> files_of_nodes(int64_t nodes) const {
    std::vector<int64_t> bytes;
    for (int64_t node = 0; node < nodes; ++node) {
      bytes.push_back(
          value_bytes(memory_of(folder_ / "memory", folder_ / "run") / fmt::format("{}@{}", host_name(), node)));
    }
    return bytes;
  }

  // Calls back on the first rank after the step, when all nodes have the copy of the step before.
  class AfterCopy : public train::Hook {
   public:
    AfterCopy(int64_t step, std::function<bool()> is_whole, std::function<void()> look)
        : step_(step), is_whole_(std::move(is_whole)), look_(std::move(look)) {}
    void after_step(train::Trainer& trainer, const train::StepReport& report) override {
      if (report.metrics.step != step_ || trainer.rank() != 0) return;
      for (int i = 0; i < 3000 && !is_whole_(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      look_();
    }

   private:
    int64_t step_;
    std::function<bool()> is_whole_;
    std::function<void()> look_;
  };

  bool has_copy(int64_t node, int64_t step) const {
    const fs::path own = memory_of(folder_ / "memory", folder_ / "run") / fmt::format("{}@{}", host_name(), node);
    for (const auto& start : fs::directory_iterator(own)) {
      if (fs::exists(start.path() / checkpoint::step_name(step) / "COMPLETE")) return true;
    }
    return false;
  }

  // The value bytes of each node's files of the copy of step 2.
  std::vector<int64_t> trained(const config::Config& config, int64_t ranks, int64_t nodes) const {
    std::vector<int64_t> found;
    RunOptions options{.ranks = ranks};
    options.measure_peak = [](const at::Device&, at::ScalarType) { return train::Peak{1e9, "a peak for the test"}; };
    options.prepare = [&](train::Trainer& trainer) {
      trainer.add_hook(std::make_unique<AfterCopy>(
          3,
          [&] {
            for (int64_t node = 0; node < nodes; ++node) {
              if (!has_copy(node, 2)) return false;
            }
            return true;
          },
          [&] { found = files_of_nodes(nodes); }));
    };
    run_training(config, options);
    return found;
  }

  static plan::Prediction predicted(const config::Config& config, int64_t devices, int64_t in_node) {
    plan::Target target{.machine = machine::load("laptop"), .software = machine::load_software("terrace")};
    target.devices = devices;
    target.machine.tiers.front().devices = in_node;
    target.machine.tiers.push_back(target.machine.tiers.front());
    target.machine.tiers.back().name = "network";
    target.machine.tiers.back().devices = devices;
    target.machine.host = {};
    return plan::predict(config, target);
  }
};

// A node holds each copy of its own states and of those of the node before; plan counts two copies, since there are two
// while one is written.
TEST_F(CopiedBytes, InTheMemoryOfNodes) {
  struct Case {
    int64_t ranks, in_node;
    std::vector<std::string> keys;
  };
  for (const Case& one :
       {Case{2, 1, {"layout.sharding=zero1"}}, Case{4, 2, {"layout.sharding=zero3"}}, Case{4, 2, {"layout.pipeline=2"}},
        Case{4, 1, {"layout.pipeline=2", "layout.sharding=ddp"}}}) {
    std::vector<std::string> keys = one.keys;
    keys.insert(keys.end(), {"checkpoint.memory_every=2", fmt::format("layout.ranks_per_node={}", one.in_node)});
    const config::Config config = config_of(keys);
    const std::vector<int64_t> files = trained(config, one.ranks, one.ranks / one.in_node);
    const plan::NodeMemory counted = predicted(config, one.ranks, one.in_node).node;
    // Parts of flat buffers are multiples of a piece, so that a rank may hold some elements more than another.
    EXPECT_NEAR(counted.files / 2, static_cast<double>(*std::ranges::max_element(files)),
                12.0 * mesh::piece_elements * one.in_node * 2)
        << fmt::format("{} ranks, {}", one.ranks, fmt::join(one.keys, ", "));
    fs::remove_all(folder_ / "run");
  }
}

TEST_F(CopiedBytes, OfACheckpointWithCopiesThatMakeStepsByThemselves) {
  for (const auto& [ranks, keys] : {std::pair<int64_t, std::vector<std::string>>{3, {"layout.sharding=ddp"}},
                                    {4, {"layout.sharding=hybrid", "layout.shard_group=2"}},
                                    {4, {"layout.sharding=ddp", "layout.pipeline=2"}}}) {
    std::vector<std::string> all = keys;
    all.insert(all.end(), {"layout.outer_every=2", "train.global_batch=12"});
    const config::Config config = config_of(all);
    trained(config, ranks, 0);
    const plan::Prediction prediction = predicted(config, ranks, ranks);
    plan::Target target{.machine = machine::load("laptop"), .software = {}, .devices = ranks};
    const auto files = static_cast<double>(value_bytes(folder_ / "run" / checkpoint::step_name(4)));
    const double counted = plan::checkpoint_estimate(prediction, target).bytes;
    EXPECT_EQ(files, counted) << fmt::format("{} ranks, {}", ranks, fmt::join(keys, ", "));
    EXPECT_GT(counted, 1.9 * 12 * static_cast<double>(prediction.parameters)) << "the copies count";
    fs::remove_all(folder_ / "run");
  }
}

}  // namespace
}  // namespace terrace::run
