// Runs the trainer on a family of the tests and collects the results.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/config/config.h"
#include "terrace/models/families.h"
#include "terrace/observe/metrics.h"
#include "terrace/train/run.h"
#include "tests/scratch_folder.h"

namespace terrace {

class RunsOfFamily : public testing::Test {
 protected:
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
    const train::RunResult done = train::run(settings, {.ranks = ranks, .resume = resume});
    return {tensors_of(done.checkpoint, settings), observe::read_metrics(settings.checkpoint.folder)};
  }

  static std::map<std::string, at::Tensor> tensors_of(const std::filesystem::path& path,
                                                      const config::Config& settings) {
    const checkpoint::Reader reader(path);
    const auto model = models::build_model(settings, {});
    std::map<std::string, at::Tensor> tensors;
    for (const char* name : {"weights", "optimizer_m", "optimizer_v"}) {
      checkpoint::Group group{name, {}};
      for (const nn::Parameter* parameter : model->parameters()) {
        const at::Tensor whole = at::zeros(parameter->value.sizes());
        group.tensors.push_back({parameter->name, whole, parameter->mark});
        tensors[std::string(name) + "/" + parameter->name] = whole;
      }
      reader.read(group);
    }
    checkpoint::Group buffers{checkpoint::buffers_group, {}};
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
      EXPECT_EQ(metrics.figures, other.figures) << step;
      EXPECT_EQ(metrics.items, other.items) << step;
    }
    ASSERT_EQ(ours.metrics.evaluations.size(), theirs.metrics.evaluations.size());
    for (const auto& [step, metrics] : ours.metrics.evaluations) {
      EXPECT_EQ(metrics.validation_loss, theirs.metrics.evaluations.at(step).validation_loss) << step;
    }
  }

  ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_.path();
};

}  // namespace terrace
