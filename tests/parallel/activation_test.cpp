// Compares the bytes of activations that each additional micro-batch keeps alive with docs/sharding.md, to the byte.
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "terrace/ops/attention/attention_kernels.h"
#include "terrace/ops/recompute.h"
#include "terrace/schedule/recompute.h"
#include "tests/models/gpt_formulas.h"
#include "tests/parallel/training.h"

namespace terrace::parallel {
namespace {

constexpr int64_t stages = 2, micro_batch = 2;

struct ActivationCase {
  std::string model;
  config::Precision precision = config::Precision::fp32;
  config::Recompute recompute = config::Recompute::none;
  int64_t tensor = 1;
  bool sequence = false;
  std::string recompute_layers = "all";  // of each stage, as TOML
};

std::vector<ActivationCase> activation_cases() {
  using config::Precision;
  using config::Recompute;
  return {
      {"cut_gpt2_deep"},
      {"cut_llama_deep"},
      {"cut_gpt2_deep", Precision::bf16},
      {"cut_llama_deep", Precision::bf16, Recompute::selective},
      {"cut_gpt2_deep", Precision::fp32, Recompute::selective},
      {"cut_llama_deep", Precision::fp32, Recompute::full},
      {"cut_gpt2_deep", Precision::bf16, Recompute::full, 2, true},
      {"cut_gpt2_deep", Precision::fp32, Recompute::none, 2},
      {"cut_gpt2_deep", Precision::fp32, Recompute::none, 2, true},
      {"cut_llama_deep", Precision::fp32, Recompute::none, 3},
      {"cut_llama_sharing_deep", Precision::fp32, Recompute::none, 4, true},
      {"cut_llama_deep", Precision::bf16, Recompute::selective, 2, true},
      {"cut_qwen3_deep"},
      {"cut_qwen3_sharing_deep", Precision::bf16, Recompute::selective, 4, true},
      {"cut_gemma3_deep"},
      {"cut_gemma3_deep", Precision::bf16, Recompute::none, 2, true},
      {"cut_experts_deep"},
      {"cut_experts_shared_deep", Precision::bf16, Recompute::none, 2, true},
      {"cut_experts_grouped_deep", Precision::fp32, Recompute::full, 2, true},
      {"cut_experts_grouped_deep", Precision::bf16, Recompute::full},
      {"cut_vit_deep"},
      {"cut_vit_normed_deep"},
      {"cut_vit_deep", Precision::bf16},
      {"cut_vit_dropped_deep"},
      {"cut_vit_dropped_deep", Precision::bf16, Recompute::selective, 2, true},
      {"cut_vit_deep", Precision::fp32, Recompute::full},
      {"cut_vit_dropped_deep", Precision::bf16, Recompute::full, 2, true},
      {"cut_vit_deep", Precision::fp32, Recompute::none, 3},
      {"cut_vit_normed_deep", Precision::fp32, Recompute::none, 4, true},
      {"cut_vit_normed_dropped_deep", Precision::bf16, Recompute::selective, 2},
      {"cut_gpt2_deep", Precision::bf16, Recompute::full, 1, false, "1"},
      {"cut_llama_deep", Precision::fp32, Recompute::full, 2, true, "[2, 0]"},
      {"cut_llama_deep", Precision::fp32, Recompute::selective, 1, false, "[1, 2]"},
      {"cut_vit_dropped_deep", Precision::bf16, Recompute::full, 1, false, "[0, 2]"},
  };
}

// The bytes that are alive before each micro-batch, by rank.
std::vector<std::vector<int64_t>> alive(const ActivationCase& c, const char* schedule, int64_t micro_batches) {
  const Training training{.model = c.model,
                          .precision = c.precision,
                          .recompute = c.recompute,
                          .steps = 1,
                          .sequences = micro_batches * micro_batch,
                          .micro_batch = micro_batch,
                          .deterministic = false};
  const Layout layout{stages * c.tensor,
                      {"pipeline=2", std::string("schedule=") + schedule, fmt::format("tensor={}", c.tensor),
                       fmt::format("sequence_parallel={}", c.sequence), "recompute_layers=" + c.recompute_layers}};
  return train(training, layout).alive;
}

schedule::UnitTableOptions options_of(const ActivationCase& c) {
  return {.samples = micro_batch,
          .element_bytes = c.precision == config::Precision::fp32 ? 4 : 2,
          .tensor_ranks = c.tensor,
          .sequence_parallel = c.sequence};
}

// Bytes of one micro-batch on a stage according to the unit table.
struct StageBytes {
  int64_t kept = 0, deferred = 0, hidden = 0;
};

StageBytes table_bytes(const ActivationCase& c, int64_t stage, int64_t of_stages) {
  const schedule::UnitTable table = small_table({.model = c.model}, options_of(c));
  const schedule::Partition partition = schedule::partition(table, of_stages, {});
  config::LayoutConfig layout;
  if (of_stages > 1) layout = layout_config({stages, {"pipeline=2", "recompute_layers=" + c.recompute_layers}}, false);
  const schedule::SegmentRecompute recompute =
      schedule::segment_recompute(partition, {.stages = of_stages}, config_of({.recompute = c.recompute}, layout));
  StageBytes bytes{.hidden = table.front().output_bytes};
  for (int64_t number = partition.virtual_stage(stage).begin; number < partition.virtual_stage(stage).end; ++number) {
    const config::Recompute own = recompute[static_cast<size_t>(number)];
    bytes.kept += schedule::kept_bytes(table, partition.segment(number), own);
    bytes.deferred += schedule::deferred_bytes(table, partition.segment(number));
  }
  return bytes;
}

// Bytes of a micro-batch's losses.
int64_t loss_bytes(const ActivationCase& c) {
  int64_t numbers = 0;
  for (const models::LossTerm& term : small_model({.model = c.model}, at::kFloat)->losses()) numbers += term.numbers;
  return numbers * 4;
}

// Bytes of one micro-batch on a stage from its forward to its backward. On the last stage the backward of the head has
// run with its forward and has left the gradient of the head's input and the losses.
int64_t expected_bytes(const ActivationCase& c, int64_t stage) {
  const StageBytes bytes = table_bytes(c, stage, stages);
  return bytes.kept + bytes.hidden + (stage + 1 == stages ? bytes.hidden + loss_bytes(c) : 0);
}

// Bytes of one micro-batch on a stage from its input gradient to its weight gradients.
int64_t deferred_bytes(const ActivationCase& c, int64_t stage) { return table_bytes(c, stage, stages).deferred; }

// Bytes by rank that the units before the head keep for one micro-batch after a backward that defers weight gradients.
std::vector<int64_t> deferred_on_ranks(const ActivationCase& c) {
  const Training training{.model = c.model, .precision = c.precision, .recompute = c.recompute};
  const config::LayoutConfig layout = layout_config(
      {c.tensor, {fmt::format("tensor={}", c.tensor), fmt::format("sequence_parallel={}", c.sequence)}}, false);
  std::vector<int64_t> bytes(static_cast<size_t>(c.tensor));
  comm::run_threads(c.tensor, {.timeout_seconds = 60}, [&](comm::World& world) {
    const auto model = small_model(training, nn::scalar_type(training.precision));
    const schedule::ResolvedLayout resolved = small_layout(training, layout, world.size());
    const schedule::Partition& partition = resolved.partition();
    CutModel cut(*model, world, resolved, layout, sharding_options(layout, at::kFloat));
    const models::Batch batch = batch_of(1, 0, micro_batch, c.model);
    std::vector<ops::WeightGradientQueue> queues(2);
    std::vector<int64_t> alive;
    const auto meter = std::make_shared<memory::Meter>();
    const c10::DebugInfoGuard metered(c10::DebugInfoKind::PROFILER_STATE, meter);
    for (ops::WeightGradientQueue& deferred : queues) {
      const models::Pass pass{
          .training = true, .recompute_attention = c.recompute == config::Recompute::selective, .deferred = &deferred};
      at::Tensor hidden = model->forward(0, 1, {}, batch, pass).front();
      for (int64_t number = 1; number < partition.last(); ++number) {
        const auto segment = [&, units = partition.segment(number).units](const at::Tensor& x) {
          return model->forward(units.begin, units.end, {x}, batch, pass).front();
        };
        hidden = c.recompute == config::Recompute::full ? ops::recompute(segment, hidden) : segment(hidden);
      }
      hidden.backward(at::ones_like(hidden));
      hidden.reset();
      alive.push_back(meter->now);
    }
    bytes[static_cast<size_t>(world.rank())] = alive[1] - alive[0];
  });
  return bytes;
}

class Activations : public ::testing::Test {
 protected:
  void SetUp() override {
    if (ops::attention_kernels(at::kCPU, at::kBFloat16, {.groups = 1, .head_dim = 16}) == nullptr) {
      GTEST_SKIP() << "without AVX-512 and AVX2 attention is torch's, which keeps other tensors";
    }
  }
};

// GPipe keeps all micro-batches until the forward of the last one.
TEST_F(Activations, MatchTheFormula) {
  for (const ActivationCase& c : activation_cases()) {
    const auto bytes = alive(c, "gpipe", 5);
    for (int64_t rank = 0; rank < stages * c.tensor; ++rank) {
      SCOPED_TRACE(fmt::format("{} {} recompute {} tensor {} sequence {}, rank {}", c.model,
                               static_cast<int>(c.precision), static_cast<int>(c.recompute), c.tensor, c.sequence,
                               rank));
      const std::vector<int64_t>& own = bytes.at(static_cast<size_t>(rank));
      ASSERT_GE(own.size(), 5u);
      EXPECT_EQ(own[2] - own[1], expected_bytes(c, rank / c.tensor));
      EXPECT_EQ(own[3] - own[2], expected_bytes(c, rank / c.tensor));
    }
  }
}

// The formula holds with and without dropout, whose backward makes another gradient tensor.
TEST_F(Activations, DeferredWeightGradientsMatchTheFormula) {
  std::vector<ActivationCase> all = activation_cases();
  for (const char* name : {"gpt2", "llama"}) all.push_back({name});
  for (const ActivationCase& c : all) {
    SCOPED_TRACE(fmt::format("{} {} recompute {} tensor {} sequence {}", c.model, static_cast<int>(c.precision),
                             static_cast<int>(c.recompute), c.tensor, c.sequence));
    const int64_t expected = table_bytes(c, 0, 1).deferred;
    EXPECT_EQ(deferred_on_ranks(c), std::vector<int64_t>(static_cast<size_t>(c.tensor), expected));
  }
}

// Stage s of p stages keeps p - s micro-batches in 1F1B, in addition to hidden states in transfer and losses.
TEST_F(Activations, AliveAsLongAsTheScheduleSays) {
  for (const ActivationCase& c : {ActivationCase{"cut_gpt2_deep"}, ActivationCase{"cut_llama_deep"}}) {
    const auto bytes = alive(c, "1f1b", 6);
    const int64_t in_transfer = 3 * models::gpt::hidden_bytes(small_config(c.model), {.samples = micro_batch}) + 24;
    for (int64_t stage = 0; stage < stages; ++stage) {
      const std::vector<int64_t>& own = bytes.at(static_cast<size_t>(stage));
      ASSERT_EQ(own.size(), 6u);
      for (int64_t i = 0; i < 6; ++i) {
        // The earlier micro-batches whose backward has not run are alive before a forward.
        const int64_t kept = std::min(i, stages - stage - 1) * expected_bytes(c, stage);
        EXPECT_GE(own[static_cast<size_t>(i)], kept) << "stage " << stage;
        EXPECT_LE(own[static_cast<size_t>(i)], kept + in_transfer) << "stage " << stage;
      }
    }
  }
}

// Bytes that are alive before each forward of ZB-H1: the micro-batches between forward and input gradient, those
// between input gradient and weight gradients, and hidden states in transfer.
TEST_F(Activations, DeferredInputsAreAliveAsLongAsTheScheduleSays) {
  using Kind = schedule::Instruction::Kind;
  const auto lists = schedule::instructions(
      {.schedule = config::PipelineSchedule::zb_h1, .stages = stages, .micro_batches = 6, .chunks = 1});
  for (const ActivationCase& c :
       {ActivationCase{"cut_gpt2_deep"}, ActivationCase{"cut_llama_deep", config::Precision::bf16},
        ActivationCase{"cut_llama_deep", config::Precision::fp32, config::Recompute::full}}) {
    const auto bytes = alive(c, "zb-h1", 6);
    const int64_t in_transfer = 3 * models::gpt::hidden_bytes(small_config(c.model), options_of(c)) + 24;
    for (int64_t stage = 0; stage < stages; ++stage) {
      SCOPED_TRACE(fmt::format("{} stage {}", c.model, stage));
      const std::vector<int64_t>& own = bytes[static_cast<size_t>(stage)];
      // If the first unit is recomputed, its second run is recorded too.
      const size_t again = own.size() / 6 - 1;
      size_t noted = 0;
      int64_t kept = 0;
      for (const schedule::Instruction& instruction : lists[static_cast<size_t>(stage)]) {
        if (instruction.kind == Kind::forward) {
          EXPECT_GE(own.at(noted), kept);
          EXPECT_LE(own.at(noted), kept + in_transfer);
          ++noted;
          kept += expected_bytes(c, stage);
        }
        if (instruction.kind == Kind::input_gradient) {
          noted += again;
          kept += deferred_bytes(c, stage) - expected_bytes(c, stage);
        }
        if (instruction.kind == Kind::weight_gradient) kept -= deferred_bytes(c, stage);
      }
      EXPECT_EQ(noted, own.size());
    }
  }
}

}  // namespace
}  // namespace terrace::parallel
