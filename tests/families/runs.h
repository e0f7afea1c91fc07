// Runs the trainer on a family of the tests and collects the results.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/config/config.h"
#include "terrace/models/families.h"
#include "terrace/observe/metrics.h"
#include "terrace/run/run_training.h"
#include "tests/parallel/layouts.h"
#include "tests/scratch_folder.h"

namespace terrace {

class RunsOfFamily : public testing::Test {
 protected:
  using Keys = std::vector<std::string>;

  RunsOfFamily() { at::set_num_threads(1); }

  // The configuration of a small run in the folder of the test.
  virtual config::Config config(const std::vector<std::string>& overrides) const = 0;

  // Weights and optimizer states by name, whole, and the metrics of every step.
  struct Result {
    std::map<std::string, at::Tensor> tensors;
    observe::RunMetrics metrics;
  };

  // The run has a folder of its own, unless it is resumed.
  Result run(int64_t ranks, const std::vector<std::string>& overrides, const std::string& resume = "") {
    const config::Config settings = config(overrides);
    if (resume.empty()) std::filesystem::remove_all(settings.checkpoint.folder);
    const run::RunResult done = run::run_training(settings, {.ranks = ranks, .resume = resume});
    return {tensors_of(done.checkpoint, settings), observe::read_metrics(settings.checkpoint.folder)};
  }

  // The text with which a run of one rank is refused; "" if it trains.
  std::string refusal_of_run(const Keys& overrides) {
    try {
      run(1, overrides);
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  }

  static std::map<std::string, at::Tensor> tensors_of(const std::filesystem::path& path,
                                                      const config::Config& settings) {
    const checkpoint::Reader reader(path);
    const auto model = models::build_model(settings, {});
    std::map<std::string, at::Tensor> tensors;
    for (const char* name : {"weights", "optimizer_m", "optimizer_v"}) {
      checkpoint::Collection collection{name, {}};
      for (const nn::Parameter* parameter : model->parameters()) {
        const at::Tensor whole = at::zeros(parameter->value.sizes());
        collection.tensors.push_back({parameter->name, whole, parameter->mark});
        tensors[std::string(name) + "/" + parameter->name] = whole;
      }
      reader.read(collection);
    }
    checkpoint::Collection buffers{checkpoint::buffers_collection, {}};
    for (const nn::Buffer* buffer : model->buffers()) {
      const at::Tensor whole = at::zeros(buffer->value.sizes());
      buffers.tensors.push_back({buffer->name, whole, ParamMark::replicated(buffer->value.sizes().vec())});
      tensors["buffers/" + buffer->name] = whole;
    }
    reader.read(buffers);
    return tensors;
  }

  static void expect_same(const Result& ours, const Result& theirs) {
    ASSERT_EQ(ours.tensors.size(), theirs.tensors.size());
    for (const auto& [name, tensor] : ours.tensors) EXPECT_TRUE(tensor.equal(theirs.tensors.at(name))) << name;
    ASSERT_EQ(ours.metrics.steps.size(), theirs.metrics.steps.size());
    for (const auto& [step, metrics] : ours.metrics.steps) {
      const observe::StepMetrics& other = theirs.metrics.steps.at(step);
      EXPECT_EQ(metrics.loss, other.loss) << step;
      EXPECT_EQ(metrics.gradient_norm, other.gradient_norm) << step;
      EXPECT_TRUE(std::ranges::equal(metrics.figures, other.figures,
                                     [](double a, double b) {
                                       return a == b || (std::isnan(a) && std::isnan(b));  // where nothing was counted
                                     }))
          << step << ": " << testing::PrintToString(metrics.figures) << " and "
          << testing::PrintToString(other.figures);
      EXPECT_EQ(metrics.items, other.items) << step;
    }
    ASSERT_EQ(ours.metrics.evaluations.size(), theirs.metrics.evaluations.size());
    for (const auto& [step, metrics] : ours.metrics.evaluations) {
      EXPECT_EQ(metrics.validation_loss, theirs.metrics.evaluations.at(step).validation_loss) << step;
    }
  }

  static Keys keys_of(const parallel::Layout& layout, const Keys& more = {}) {
    Keys keys = more;
    for (const std::string& key : layout.keys) keys.push_back("layout." + key);
    return keys;
  }

  // Compared with plain data parallelism on the same number of ranks.
  void expect_equal(const std::vector<parallel::Layout>& layouts, const Keys& more = {}) {
    std::map<int64_t, Result> plain;
    for (const parallel::Layout& layout : layouts) {
      SCOPED_TRACE(layout.name());
      if (!plain.contains(layout.ranks)) plain[layout.ranks] = run(layout.ranks, more);
      expect_same(run(layout.ranks, keys_of(layout, more)), plain.at(layout.ranks));
    }
  }

  // Runs on two nodes whose data are staged, with a window for all and with the least one.
  void expect_same_when_staged(const Keys& more = {}) {
    const std::filesystem::path disk = folder_ / "disk";
    std::filesystem::create_directories(disk);
    for (const int64_t ranks : {2, 4}) {
      SCOPED_TRACE(ranks);
      const Result plain = run(ranks, more);
      for (const char* window : {"0", "65536"}) {
        Keys keys = more;
        keys.insert(keys.end(), {"data.stage=" + disk.string(), std::string("data.stage_bytes=") + window,
                                 "layout.ranks_per_node=" + std::to_string(ranks / 2)});
        const Result staged = run(ranks, keys);
        expect_same(staged, plain);
        EXPECT_GT(staged.metrics.steps.rbegin()->second.stage.value().copied_bytes, 0);
      }
    }
    EXPECT_TRUE(std::filesystem::is_empty(disk));
  }

  static std::vector<Keys> pipelines() {
    return {{"layout.pipeline=2", "layout.schedule=gpipe"},
            {"layout.pipeline=2"},
            {"layout.pipeline=3"},
            {"layout.pipeline=2", "layout.schedule=interleaved", "layout.chunks=2"},
            {"layout.pipeline=2", "layout.schedule=zb-h1"},
            {"layout.pipeline=2", "layout.schedule=zb-v", "layout.chunks=2"}};
  }

  // Pipelines, whose first keys are their numbers of stages, compared with one stage and the same number of
  // data-parallel ranks; without clipping, whose norm is a sum over stages.
  void expect_one_stage(int64_t data_ranks, const Keys& more = {}, const std::vector<Keys>& compared = pipelines()) {
    Keys unclipped = more;
    unclipped.emplace_back("optimizer.clip=0.0");
    const Result one = run(data_ranks, unclipped);
    for (const Keys& pipeline : compared) {
      SCOPED_TRACE(pipeline.front() + " " + pipeline.back());
      Keys keys = unclipped;
      keys.insert(keys.end(), pipeline.begin(), pipeline.end());
      const int64_t stages = pipeline.front().back() - '0';
      const Result ours = run(stages * data_ranks, keys);
      ASSERT_EQ(ours.tensors.size(), one.tensors.size());
      for (const auto& [name, tensor] : ours.tensors) EXPECT_TRUE(tensor.equal(one.tensors.at(name))) << name;
    }
  }

  // Tensor ranks compared with one rank: weights and losses are equal up to the rounding of sums in another order.
  // `expect_more` compares what else should be.
  void expect_one_rank(const Keys& more = {},
                       const std::function<void(const Result&, const Result&)>& expect_more = {}) {
    const Result one = run(1, more);
    for (const int64_t tensor : {2, 3, 4}) {
      for (const parallel::Layout& layout : parallel::tensor_layouts(tensor)) {
        SCOPED_TRACE(layout.name());
        const Result ours = run(layout.ranks, keys_of(layout, more));
        ASSERT_EQ(ours.tensors.size(), one.tensors.size());
        for (const auto& [name, values] : ours.tensors) {
          EXPECT_TRUE(values.allclose(one.tensors.at(name), 1e-4, 2e-5)) << name;
        }
        for (const auto& [step, metrics] : ours.metrics.steps) {
          const double loss = one.metrics.steps.at(step).loss;
          EXPECT_NEAR(metrics.loss, loss, 1e-5 * loss) << step;
        }
        if (expect_more) expect_more(ours, one);
      }
    }
  }

  ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_.path();
};

}  // namespace terrace
