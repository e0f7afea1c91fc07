// Compares what the ranks of Hybrid-STOP (docs/sharding.md), of fully sharded data parallelism and of tensor
// parallelism send and hold in a step of a vision transformer with what terrace plan predicts for the tables of that
// page, to the byte.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "terrace/plan/prediction.h"
#include "tests/parallel/count.h"
#include "tests/parallel/training.h"
#include "tests/plan/small_machine.h"

namespace terrace::parallel {
namespace {

struct HybridCase {
  Layout layout;
  std::string model = "cut_vit_dropped_deep";
  config::Precision precision = config::Precision::bf16;
  config::Recompute recompute = config::Recompute::none;
  int64_t micro_batch = 0;
};

std::vector<HybridCase> hybrid_cases() {
  using config::Precision;
  using config::Recompute;
  const Layout stop{8, {"tensor=2", "sharding=hybrid", "shard_group=2"}};
  return {{stop},
          {stop, "cut_vit_normed_deep", Precision::fp32, Recompute::full},
          {stop, "cut_vit", Precision::bf16, Recompute::selective, 3},
          {stop.with({"sequence_parallel=true"})},
          {{6, {"tensor=3", "sharding=hybrid", "shard_group=2"}}, "cut_vit_normed"},
          {{8, {"tensor=4", "sharding=hybrid", "shard_group=2"}}},
          {{4, {"sharding=zero3"}}},
          {{4, {"tensor=4"}}, "cut_vit_deep", Precision::fp32, Recompute::none, 12}};
}

Training training_of(const HybridCase& c) {
  return {.model = c.model,
          .precision = c.precision,
          .recompute = c.recompute,
          .steps = 1,
          .micro_batch = c.micro_batch,
          .deterministic = false};
}

plan::Prediction predicted(const HybridCase& c) {
  const Training training = training_of(c);
  config::Config config = vit_config(c.model);
  config.layout = layout_config(c.layout, false);
  config.train.precision = c.precision;
  config.train.recompute = c.recompute;
  config.train.global_batch = training.sequences;
  config.train.micro_batch =
      c.micro_batch > 0 ? c.micro_batch : training.sequences * config.layout.tensor / c.layout.ranks;
  const machine::Machine machine = plan::small_machine();
  const plan::Target target{.machine = machine, .software = {}, .devices = c.layout.ranks};
  return plan::predict(plan::PlannedRun(config, c.layout.ranks, c.layout.ranks), target);
}

// Bytes by group that each rank sent.
std::map<std::string, int64_t> sent_by(const std::map<std::string, std::map<comm::Kind, comm::Traffic>>& groups) {
  std::map<std::string, int64_t> sent;
  for (const char* name : {"shard_weights", "shard_gradients", "replicas", "tensor"}) {
    const auto found = groups.find(name);
    if (found != groups.end()) sent[name] = counted(found->second).bytes;
  }
  return sent;
}

TEST(HybridStop, SendsWhatIsPlannedToTheByte) {
  for (const HybridCase& c : hybrid_cases()) {
    SCOPED_TRACE(c.model + " on " + c.layout.name());
    const Outcome outcome = train(training_of(c), c.layout);
    const plan::StagePrediction stage = predicted(c).stages.front();
    std::map<std::string, double> planned;
    for (const plan::ExposedTime& one : stage.exposed) planned[one.group] = one.sent_bytes;
    // The ranks that divide the shares of gradients among them send different numbers of bytes.
    double tensor_sent = 0;
    for (const auto& of_rank : outcome.traffic) {
      std::map<std::string, int64_t> sent = sent_by(of_rank);
      if (sent.contains("tensor")) tensor_sent += static_cast<double>(sent.at("tensor"));
      for (const auto& [group, bytes] : sent) {
        if (group == "tensor") continue;
        EXPECT_EQ(static_cast<double>(bytes), planned[group]) << group;
      }
    }
    EXPECT_NEAR(tensor_sent / static_cast<double>(c.layout.ranks), planned["tensor"] + stage.shares_bytes, 0.5);
  }
}

TEST(HybridStop, GathersAtMostTheWholeLayerThatIsPlanned) {
  for (const HybridCase& c : hybrid_cases()) {
    SCOPED_TRACE(c.model + " on " + c.layout.name());
    const Outcome outcome = train(training_of(c), c.layout.with({"prefetch=0"}));
    const plan::StagePrediction stage = predicted(c).stages.front();
    const bool gathers = layout_config(c.layout, false).sharding != config::Sharding::ddp;
    const int64_t expected = gathers ? std::max(stage.layer_weights_bytes, stage.other_weights_bytes) : 0;
    for (const StateBytes& bytes : outcome.peak_bytes) EXPECT_EQ(bytes.gathered_weights, expected);
  }
}

}  // namespace
}  // namespace terrace::parallel
