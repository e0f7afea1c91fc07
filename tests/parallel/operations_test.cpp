// Compares the operations of the unit table with those that are recorded while a step is trained: FLOPs and bytes of
// products, attention and kernels, calls and bytes between tensor ranks.
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>

#include "terrace/observe/operation_table.h"
#include "terrace/ops/attention/attention_kernels.h"
#include "terrace/ops/loss/vocabulary_loss.h"
#include "terrace/ops/products/products.h"
#include "terrace/profile/operation_recorder.h"
#include "terrace/profile/record.h"
#include "tests/models/gpt_formulas.h"
#include "tests/parallel/count.h"
#include "tests/parallel/training.h"

namespace terrace::parallel {
namespace {

using config::Precision;
using config::Recompute;
using schedule::Operation;
using schedule::TensorCollective;

struct RecordedCase {
  std::string model;
  Precision precision = Precision::fp32;
  Recompute recompute = Recompute::none;
  int64_t tensor = 1;
  bool sequence = false;
};

std::vector<RecordedCase> recorded_cases() {
  return {
      {"cut_gpt2"},
      {"cut_llama", Precision::bf16},
      {"cut_gpt2", Precision::bf16, Recompute::full},
      {"cut_llama", Precision::fp32, Recompute::selective},
      {"cut_gpt2", Precision::fp32, Recompute::none, 2},
      {"cut_gpt2", Precision::bf16, Recompute::none, 2, true},
      {"cut_llama", Precision::fp32, Recompute::selective, 3},
      {"cut_llama", Precision::bf16, Recompute::full, 2, true},
      {"cut_gpt2", Precision::fp32, Recompute::none, 4, true},
      {"cut_llama_sharing", Precision::fp32, Recompute::none, 4},
      {"cut_qwen2", Precision::bf16, Recompute::none, 2, true},
      {"cut_gpt2_erf", Precision::bf16, Recompute::none, 2},
      {"cut_qwen3", Precision::fp32, Recompute::selective, 2},
      {"cut_mistral", Precision::bf16, Recompute::selective, 2},
      {"cut_qwen3_sharing", Precision::bf16, Recompute::full, 4, true},
      {"cut_gemma3"},
      {"cut_gemma3_sharing", Precision::bf16, Recompute::selective, 2, true},
      {"cut_experts", Precision::fp32, Recompute::selective},
      {"cut_experts_shared", Precision::bf16, Recompute::none, 2, true},
      {"cut_vit"},
      {"cut_vit_normed", Precision::bf16, Recompute::selective},
      {"cut_vit_dropped", Precision::fp32, Recompute::full},
      {"cut_vit_dropped", Precision::bf16, Recompute::none, 2},
      {"cut_vit", Precision::fp32, Recompute::none, 3},
      {"cut_vit_normed_dropped", Precision::bf16, Recompute::selective, 4, true},
  };
}

Training training_of(const RecordedCase& c) {
  return {.model = c.model, .precision = c.precision, .recompute = c.recompute, .steps = 1, .deterministic = false};
}

config::LayoutConfig layout_of(const RecordedCase& c) {
  return layout_config(
      {c.tensor, {fmt::format("tensor={}", c.tensor), fmt::format("sequence_parallel={}", c.sequence)}}, false);
}

bool own_products(const RecordedCase& c) {
  return ops::products_instructions(at::kCPU, nn::scalar_type(c.precision), ops::Products::own) !=
         std::string_view("torch");
}

bool own_attention(const RecordedCase& c) {
  return ops::attention_kernels(at::kCPU, nn::scalar_type(c.precision), {.groups = 1, .head_dim = 16}) != nullptr;
}

// All operations and collectives of one rank in a step with one micro-batch, with those that recompute repeats.
struct Executed {
  std::vector<Operation> operations;
  std::vector<TensorCollective> collectives;

  template <typename List>
  static void append(List& list, const List& more) {
    list.insert(list.end(), more.begin(), more.end());
  }
};

Executed executed(const RecordedCase& c) {
  const schedule::UnitTableOptions options{.samples = training_of(c).sequences,
                                           .element_bytes = config::element_bytes(c.precision),
                                           .tensor_ranks = c.tensor,
                                           .sequence_parallel = c.sequence,
                                           .fused_products = own_products(c),
                                           .cpu_products = own_products(c) && c.precision != Precision::fp16};
  Executed all;
  for (const schedule::UnitRow& row : small_table(training_of(c), options)) {
    const schedule::Operations& unit = row.operations;
    for (const auto& list : {unit.forward, unit.input_gradient, unit.weight_gradient}) {
      Executed::append(all.operations, list);
    }
    for (const auto& list : {unit.forward_collectives, unit.backward_collectives}) {
      Executed::append(all.collectives, list);
    }
    if (row.layer < 0) continue;
    if (c.recompute == Recompute::full) {
      Executed::append(all.operations, unit.forward);
      Executed::append(all.collectives, unit.forward_collectives);
    }
    if (c.recompute == Recompute::selective) {
      std::ranges::copy_if(unit.forward, std::back_inserter(all.operations),
                           [](const Operation& one) { return one.kind == Operation::Kind::attention; });
    }
  }
  return all;
}

// The operations of all ranks, and what each rank sent.
struct Recorded {
  observe::Trace trace;
  std::vector<Count> sent = {};
};

Recorded record(const RecordedCase& c, int64_t micro_batches = 1) {
  at::set_num_threads(1);
  Training training = training_of(c);
  training.micro_batch = training.sequences;
  training.sequences *= micro_batches;
  const config::LayoutConfig layout = layout_of(c);
  Outcome outcome;
  profile::OperationRecorder recorder(at::kCPU);
  comm::run_threads(c.tensor, {.timeout_seconds = 60}, [&](comm::World& world) {
    RankTraining rank(training, layout, world);
    rank.step(1, outcome);
    rank.finish(outcome);
  });
  Recorded recorded{.trace = recorder.finish()};
  for (const auto& traffic : outcome.traffic) {
    if (c.tensor > 1) recorded.sent.push_back(counted(traffic.at("tensor")));
  }
  return recorded;
}

// Calls, FLOPs and bytes of the operations that `matches` selects by name, as each of them states them.
template <typename Matches>
observe::OperationRow sum_of(const observe::Trace& trace, const Matches& matches) {
  observe::OperationRow sum;
  for (const observe::Lane& lane : trace) {
    for (const observe::Span& span : lane.spans) {
      if (span.kind != observe::SpanKind::operation || !matches(span.name)) continue;
      ++sum.calls;
      sum.flops += span.flops;
      sum.bytes += span.bytes;
    }
  }
  return sum;
}

observe::OperationRow sum_of_all_with(const observe::Trace& trace, const char* part) {
  return sum_of(trace, [&](const std::string& name) { return name.find(part) != std::string::npos; });
}

template <typename Value>
double sum_over(const std::vector<Operation>& operations, Operation::Kind kind, const Value& value) {
  double sum = 0;
  for (const Operation& one : operations) sum += one.kind == kind ? value(one) : 0.0;
  return sum;
}

double flops(const Operation& one) { return one.flops(); }
double bytes(const Operation& one) { return one.bytes; }

class RecordedOperations : public ::testing::Test {
 protected:
  // Calls check(case, executed, recorded) for every case.
  template <typename Check>
  static void for_each_case(const Check& check) {
    for (const RecordedCase& c : recorded_cases()) {
      SCOPED_TRACE(fmt::format("{} {} recompute {} tensor {} sequence {}", c.model, static_cast<int>(c.precision),
                               static_cast<int>(c.recompute), c.tensor, c.sequence));
      check(c, executed(c), record(c));
    }
  }
};

TEST_F(RecordedOperations, FlopsEqualTheUnitTable) {
  for_each_case([](const RecordedCase& c, const Executed& table, const Recorded& recorded) {
    const auto ranks = static_cast<double>(c.tensor);
    const double attention = sum_of_all_with(recorded.trace, "attention").flops;
    const double of_table = ranks * sum_over(table.operations, Operation::Kind::attention, flops);
    EXPECT_EQ(sum_of_all_with(recorded.trace, "").flops - attention,
              ranks * sum_over(table.operations, Operation::Kind::product, flops));
    if (is_vit(c.model)) {
      EXPECT_EQ(attention, of_table);
      return;
    }
    // The table counts half of all pairs of T tokens; a causal mask lets T (T + 1) / 2 through.
    // With a window it counts the pairs as if positions were continuous, which leaves out half a key of each query.
    const models::gpt::ModelConfig config = small_config(c.model);
    double pairs = 0, half = 0;
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      const auto window = static_cast<double>(config.window_of(layer));
      const double seen = window > 0 ? window * (small_sequence - window / 2) : 0.5 * small_sequence * small_sequence;
      half += seen;
      // Where the processor lacks the instructions for this program's kernel, torch computes all pairs under a mask.
      const bool with_mask = window > 0 && sum_of_all_with(recorded.trace, "scaled_dot_product").calls > 0;
      pairs += with_mask ? static_cast<double>(small_sequence * small_sequence)
                         : seen + (window > 0 ? window / 2 : 0.5 * small_sequence);
    }
    EXPECT_DOUBLE_EQ(attention * half, pairs * of_table);
  });
}

// The kernels of terrace/ops/kernels.h by name, and with our kernels the products and attention.
TEST_F(RecordedOperations, BytesEqualTheUnitTable) {
  for_each_case([](const RecordedCase& c, const Executed& table, const Recorded& recorded) {
    const auto ranks = static_cast<double>(c.tensor);
    for (const char* name : {"norm", "norm_backward", "swiglu", "swiglu_backward", "dropout", "cross_entropy",
                             "loss_references", "row_sums", "scaled_rows", "add_column_sums", "add_rows"}) {
      double expected_bytes = 0;
      int64_t expected_calls = 0;
      for (const Operation& one : table.operations) {
        if (one.name != name || one.count == 0) continue;  // 0: within a product
        expected_bytes += one.bytes;
        expected_calls += one.count;
      }
      const observe::OperationRow sum = sum_of(recorded.trace, [&](const std::string& recorded_name) {
        return recorded_name == std::string(profile::own_operation_prefix) + name;
      });
      EXPECT_EQ(sum.bytes, ranks * expected_bytes) << name;
      EXPECT_EQ(sum.calls, c.tensor * expected_calls) << name;
    }
    if (own_products(c)) {
      // torch's products of a vision transformer's embedding are no linear layers of ours.
      const std::set<std::string_view> of_torch = {
          "query",          "keys of the query", "map of values",         "map of keys",         "map of scores",
          "map of squares", "lead or time",      "squares of deviations", "scores of variables", "values of variables"};
      const auto own_bytes = [&](const Operation& one) { return of_torch.contains(one.name) ? 0.0 : one.bytes; };
      const double within = sum_over(table.operations, Operation::Kind::elements,
                                     [](const Operation& one) { return one.count == 0 ? one.bytes : 0.0; });
      // The table's are those of a later micro-batch: the first stores gradients, which the others also read.
      const observe::Trace of_two = record(c, 2).trace;
      const auto products = [](const observe::Trace& trace) {
        return sum_of_all_with(trace, "terrace::linear").bytes + sum_of_all_with(trace, "terrace::experts").bytes;
      };
      EXPECT_EQ(products(of_two) - products(recorded.trace),
                ranks * (sum_over(table.operations, Operation::Kind::product, own_bytes) + within));
    }
    if (own_attention(c)) {
      EXPECT_EQ(sum_of_all_with(recorded.trace, "terrace::attention").bytes,
                ranks * sum_over(table.operations, Operation::Kind::attention, bytes));
    }
  });
}

TEST_F(RecordedOperations, CollectivesEqualTheUnitTable) {
  for_each_case([](const RecordedCase& c, const Executed& table, const Recorded& recorded) {
    Count expected;
    const auto others = static_cast<double>(c.tensor - 1) / static_cast<double>(c.tensor);
    for (const TensorCollective& one : table.collectives) {
      expected.calls += one.count;
      const double transfers = one.kind == TensorCollective::Kind::all_reduce ? 2 : 1;
      expected.bytes += static_cast<int64_t>(std::llround(transfers * one.bytes * others));
    }
    // Once per step, the shares of the gradients of replicated parameters are summed: with a cut sequence of all of
    // them, else of those that the heads share.
    double shares = 0;
    for (const schedule::UnitRow& row : small_table(training_of(c))) {
      for (const schedule::UnitParameter& parameter : row.parameters) {
        if (parameter.mark.kind != ParamMark::Kind::replicated) continue;
        if (!c.sequence && !parameter.mark.gradient_in_shares) continue;
        shares += 4.0 * static_cast<double>(schedule::elements(parameter.mark));
      }
    }
    if (c.tensor > 1 && shares > 0) {
      ++expected.calls;
      expected.bytes += static_cast<int64_t>(std::llround(2 * shares * others));
    }
    for (const Count& sent : recorded.sent) EXPECT_EQ(sent, expected);
  });
}

// The number is stated twice, since a plan reads nothing of torch.
TEST(PlannedLoss, HasTheChunksOfTheLossOnBothDevices) {
  for (const bool on_gpu : {false, true}) {
    for (const int64_t vocabulary : {300, 50'304}) {
      const at::Tensor weight = at::empty({vocabulary, 1}, at::kBFloat16);
      for (const int64_t tokens : {1'000, 100'000'000}) {
        EXPECT_EQ(models::gpt::chunk_tokens(tokens, vocabulary, {.element_bytes = 2, .on_gpu = on_gpu}),
                  ops::tokens_per_chunk(tokens, weight, loss_chunk_bytes(on_gpu)));
      }
    }
  }
}

}  // namespace
}  // namespace terrace::parallel
