// Compares the memory that a plan reserves for the activations of graph networks with what a forward keeps, and looks
// at the refusal of micro-batches that do not fit.
#include <c10/util/ThreadLocalDebugInfo.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/text/units.h"
#include "terrace/memory/meter.h"
#include "terrace/plan/memory/memory_need.h"
#include "tests/families/chains_of_atoms.h"
#include "tests/families/runs.h"
#include "tests/models/gnn/small_graphs.h"

namespace terrace::models::gnn {
namespace {

class GnnMemory : public RunsOfFamily {
 protected:
  GnnMemory() { prepare_chains_of_atoms((folder_ / "molecules").string(), 30); }

  config::Config config(const std::vector<std::string>& overrides) const override {
    const std::string toml =
        "[model]\nfamily = \"gnn\"\nconv = \"schnet\"\nlayers = 4\nwidth = 8\nradius = 3.0\n"
        "[[model.outputs]]\nname = \"energy\"\n[data]\ntrain = [\"" +
        (folder_ / "molecules").string() +
        "\"]\n[train]\nglobal_batch = 8\nmicro_batch = 8\nsteps = 1\nthreads = 1\ndevice = \"cpu\"\n"
        "[optimizer]\nlearning_rate = 1e-2\n[checkpoint]\nfolder = \"" +
        (folder_ / "run").string() + "\"\n";
    return config::parse(toml, "gnn.toml", models::families(), overrides);
  }

  plan::MemoryNeed need(const Keys& keys) const { return plan::least_memory(config(keys), 1, 1, 1); }
};

// A plan counts all that layers keep, and less than 1.8 times as much. Tensors are rounded up to whole lines of memory,
// and once a training has run in this process to whole blocks of its pool, by up to a third; of networks of few columns
// heads, which a plan leaves out, are as large as layers.
TEST_F(GnnMemory, PlansReserveWhatForwardsKeepWithinAFactor) {
  for (SmallGnn small : small_gnns()) {
    for (const int64_t times : {1, 16}) {
      SCOPED_TRACE(fmt::format("{}, width times {}", small.name, times));
      small.config.width *= times;
      small.config.filters *= times;
      const auto model = drawn(small.config, at::kFloat);
      const Batch batch = some_graphs(small.config, some_structures(1), 1);
      const Pass pass = training_pass(small.config);
      int64_t planned = 0;
      for (const schedule::UnitRow& row :
           unit_table(small.config, {.samples = batch.samples.size(0), .sizes = batch.sizes})) {
        planned += row.kept_bytes[static_cast<size_t>(config::Recompute::none)];
      }
      const auto meter = std::make_shared<memory::Meter>();
      const c10::DebugInfoGuard metered(c10::DebugInfoKind::PROFILER_STATE, meter);
      const bool derived = small.config.has_derivatives();
      const Tensors kept =
          derived ? model->loss(0, {}, batch, pass) : model->forward(0, model->num_units() - 1, {}, batch, pass);
      const double ratio = static_cast<double>(planned) / static_cast<double>(meter->now);
      EXPECT_GE(ratio, times > 1 ? 0.65 : derived ? 0.5 : 1.0);
      EXPECT_LT(ratio, times == 1 ? 2.5 : 1.8);
    }
  }
}

// All 120 atoms of a graph are joined, so that a state for each edge would take more than all that a step holds.
TEST_F(GnnMemory, GinWritesNoMessages) {
  ModelConfig gin = small_gnn(Conv::gin, {{.name = "gap", .label = "gap"}});
  gin.width = 96;
  gin = with_derived_values(gin);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
  const Batch batch = some_graphs(gin, {{.positions = random_numbers({120, 3}, generator).mul(0.2)}}, 1);
  const int64_t edges = batch.sizes.at("edges");
  ASSERT_EQ(edges, 120 * 119);
  const auto model = drawn(gin, at::kFloat);
  const auto meter = std::make_shared<memory::Meter>();
  const c10::DebugInfoGuard metered(c10::DebugInfoKind::PROFILER_STATE, meter);
  terms_and_gradients(*model, batch, training_pass(gin));
  EXPECT_LT(meter->peak, edges * gin.width * 4);
}

TEST_F(GnnMemory, GrowsWithTheGraphsAndTheBudgetOfAMicroBatch) {
  const double eight = need({}).activations;
  EXPECT_EQ(need({"train.micro_batch=4"}).activations, eight / 2);
  // The largest graphs have 5 atoms and 14 edges.
  const Keys budget = {"train.micro_batch=0", "train.micro_batch_sizes={atoms = 40, edges = 112}"};
  EXPECT_EQ(need(budget).activations, eight);
  const Keys half = {"train.micro_batch=0", "train.micro_batch_sizes={atoms = 20, edges = 56}"};
  EXPECT_EQ(need(half).activations, eight / 2);
}

TEST_F(GnnMemory, RefusesMicroBatchesThatDoNotFit) {
  const auto refusal = [&](const Keys& keys) {
    const plan::MemoryNeed needed = need(keys);
    EXPECT_EQ(plan::memory_refusal(config(keys), 1, 1, needed, {.machine = needed.all()}), "");
    return plan::memory_refusal(config(keys), 1, 1, needed, {.machine = needed.all() - 1});
  };
  const Keys budget = {"train.micro_batch=0", "train.micro_batch_sizes={atoms = 40, edges = 112}"};
  EXPECT_NE(refusal({}).find(", a smaller train.micro_batch, "), std::string::npos) << refusal({});
  EXPECT_NE(refusal(budget).find(", smaller train.micro_batch_sizes, "), std::string::npos) << refusal(budget);
  EXPECT_NE(refusal({}).find("train.recompute = \"full\""), std::string::npos) << refusal({});
  const std::string normed = refusal({"model.norm=batch"});  // which a step has one forward for
  EXPECT_EQ(normed.find("train.recompute"), std::string::npos) << normed;
  const Keys huge = {"model.width=256", "train.global_batch=100000000", "train.micro_batch=0",
                     "train.micro_batch_sizes={atoms = 1000000000000, edges = 1000000000000}"};
  try {
    run(1, huge);
    FAIL() << "no machine has this memory";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code, ExitCode::infeasible);
    const std::string activations = format_bytes(need(huge).activations) + " for activations";
    EXPECT_NE(std::string(error.what()).find(activations), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace terrace::models::gnn
