// Compares attention over ranges of keys, merged, with attention over whole sequences in double precision and with the
// error of joint_attention(), and checks its masks, its strides, its bits on other numbers of threads and huge scores.
#include "terrace/ops/attention/partial_attention.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/ops/attention/attention_kernels.h"
#include "terrace/profile/operation_recorder.h"
#include "terrace/profile/record.h"
#include "tests/profile/sum_of.h"
#include "tests/pytorch/judge.h"

namespace terrace::ops {
namespace {

struct Range {
  int64_t begin, end;
};

// Attention of whole sequences.
struct Whole {
  HeadLayout layout;
  Visibility visibility = Visibility::causal;
  int64_t window = 0;
  RotaryTable table = {};
  at::Tensor positions = {}, documents = {};  // as in TokenRange
  at::Tensor joint = {}, upstream = {};

  int64_t length() const { return joint.size(1); }

  PartialAttention part(const at::Tensor& keys_values, Range queries, Range keys) const {
    const auto tokens = [&](const at::Tensor& vectors, Range range) {
      const auto of = [&](const at::Tensor& whole) {
        return whole.defined() ? whole.narrow(1, range.begin, range.end - range.begin) : whole;
      };
      return TokenRange{of(vectors), range.begin, of(positions), of(documents)};
    };
    return {layout, table, visibility, window, tokens(joint, queries), tokens(keys_values, keys)};
  }
};

struct Results {
  at::Tensor context, queries, keys, values;  // the last three: gradients
};

Results split_gradients(const Whole& whole, const at::Tensor& context, const at::Tensor& joint_gradient) {
  const JointViews views = joint_views(joint_gradient.contiguous(), whole.layout);
  return {context.detach(), views.queries, views.keys, views.values};
}

at::Tensor narrowed(const at::Tensor& tensor, int64_t dim, Range range) {
  return tensor.narrow(dim, range.begin, range.end - range.begin);
}

// A query range and a key range that attention is computed of, in this order.
using Call = std::pair<Range, Range>;

Results by_parts(const Whole& whole, const std::vector<Call>& calls, AttentionChoice choice) {
  const HeadLayout& layout = whole.layout;
  const at::Tensor keys_values = keys_and_values(whole.joint, layout);
  const RunningContext running = empty_context(whole.joint, layout);
  for (const auto& [queries, keys] : calls) {
    add_attention(whole.part(keys_values, queries, keys),
                  {narrowed(running.context, 1, queries), narrowed(running.log_sums, 2, queries)}, choice);
  }
  const at::Tensor context = final_context(running, whole.joint.scalar_type());
  const at::Tensor products = context_products(context, whole.upstream, layout, choice);
  const at::Tensor key_value_sums =
      at::zeros({whole.joint.size(0), whole.length(), layout.groups, 2, layout.head_dim}, products.options());
  const PartialGradients gradients{at::zeros_like(running.context), key_value_sums};
  for (const auto& [queries, keys] : calls) {
    add_attention_gradients(whole.part(keys_values, queries, keys), narrowed(running.log_sums, 2, queries),
                            narrowed(products, 2, queries), narrowed(whole.upstream, 1, queries),
                            {narrowed(gradients.queries, 1, queries), narrowed(gradients.keys_values, 1, keys)},
                            choice);
  }
  const at::Tensor joint_gradient = at::full(whole.joint.sizes(), 7.0, whole.joint.options());
  write_query_gradients(gradients.queries, layout, joint_gradient);
  write_key_value_gradients(gradients.keys_values, layout, joint_gradient);
  return split_gradients(whole, context, joint_gradient);
}

Results by_joint_attention(const Whole& whole, AttentionChoice choice) {
  at::Tensor leaf = whole.joint.detach().clone().requires_grad_(true);
  const RotaryTable* table = whole.table.cosines.defined() ? &whole.table : nullptr;
  const at::Tensor context = joint_attention(leaf, whole.layout, table, whole.positions, {whole.documents}, choice,
                                             whole.visibility, whole.window);
  torch::autograd::backward({context}, {whole.upstream});
  return split_gradients(whole, context, leaf.grad());
}

// By its definition, in double precision.
Results exact_results(const Whole& whole) {
  at::Tensor leaf = whole.joint.to(at::kDouble).requires_grad_(true);
  const RotaryTable* table = whole.table.cosines.defined() ? &whole.table : nullptr;
  const Heads heads = split_heads(leaf, whole.layout, table, whole.positions);
  const at::Tensor keys = heads.keys.repeat_interleave(whole.layout.queries_per_group, 1);
  const at::Tensor values = heads.values.repeat_interleave(whole.layout.queries_per_group, 1);
  at::Tensor scores =
      at::matmul(heads.queries, keys.transpose(2, 3)) / std::sqrt(static_cast<double>(whole.layout.head_dim));
  const at::Tensor places = at::arange(whole.length()), distance = places.unsqueeze(1) - places;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (whole.visibility == Visibility::causal) scores = scores.masked_fill(distance.lt(0), -infinity);
  if (whole.window > 0) scores = scores.masked_fill(distance.ge(whole.window), -infinity);
  if (whole.documents.defined()) {
    const at::Tensor other = whole.documents.unsqueeze(2).ne(whole.documents.unsqueeze(1));
    scores = scores.masked_fill(other.unsqueeze(1), -infinity);
  }
  const at::Tensor context = at::matmul(at::softmax(scores, -1), values).transpose(1, 2).flatten(2);
  torch::autograd::backward({context}, {whole.upstream.to(at::kDouble)});
  return split_gradients(whole, context, leaf.grad());
}

void add_errors(testing::ErrorTally& tally, const Results& ours, const Results& theirs, const Results& exact) {
  tally.add("context", ours.context, theirs.context, exact.context);
  tally.add("queries", ours.queries, theirs.queries, exact.queries);
  tally.add("keys", ours.keys, theirs.keys, exact.keys);
  tally.add("values", ours.values, theirs.values, exact.values);
}

std::vector<Range> even_ranges(int64_t length, int64_t count) {
  std::vector<Range> ranges;
  for (int64_t i = 0; i < count; ++i) ranges.push_back({length * i / count, length * (i + 1) / count});
  return ranges;
}

std::vector<Call> all_calls(const std::vector<Range>& queries, const std::vector<Range>& keys) {
  std::vector<Call> calls;
  for (Range q : queries) {
    for (Range k : keys) calls.emplace_back(q, k);
  }
  return calls;
}

class PartialAttentionTest : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  Whole drawn(int64_t batch, int64_t length, const HeadLayout& layout) {
    const auto normal = [&](int64_t columns) {
      return at::randn({batch, length, columns}, generator_, at::TensorOptions().dtype(at::kFloat)).to(GetParam());
    };
    return {.layout = layout, .joint = normal(layout.columns()), .upstream = normal(layout.heads() * layout.head_dim)};
  }

  // Documents of drawn lengths, whose rotary positions begin again in each.
  void add_documents(Whole& whole, int64_t longest) {
    const int64_t batch = whole.joint.size(0), length = whole.length();
    whole.documents = at::zeros({batch, length}, at::kLong);
    whole.positions = at::zeros({batch, length}, at::kLong);
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t begin = 0; begin < length;) {
        const int64_t tokens = std::min(draw(1, longest), length - begin);
        whole.documents[b].narrow(0, begin, tokens).fill_(begin);
        whole.positions[b].narrow(0, begin, tokens).copy_(at::arange(tokens));
        begin += tokens;
      }
    }
  }

  void add_rotation(Whole& whole) {
    whole.table = rotary_table(whole.length(), whole.layout.head_dim, 500.0, at::kCPU);
  }

  std::vector<Range> drawn_ranges(int64_t length, int64_t most) {
    std::vector<int64_t> ends = {0, length};
    for (int64_t i = draw(0, most - 1); i > 0; --i) ends.push_back(draw(0, length));
    std::sort(ends.begin(), ends.end());
    std::vector<Range> ranges;
    for (size_t i = 1; i < ends.size(); ++i) ranges.push_back({ends[i - 1], ends[i]});
    return ranges;
  }

  std::mt19937_64 random_{62};
  at::Generator generator_ = at::make_generator<at::CPUGeneratorImpl>(62);
};

// Ranges of queries and keys that end anywhere, in any order, empty ones and ones without a visible pair among them.
TEST_P(PartialAttentionTest, MatchesDoublePrecisionForDrawnRanges) {
  at::set_num_threads(2);
  testing::ErrorTally own(GetParam()), separate(GetParam());
  const int64_t widths[] = {16, 48, 64, 80, 112, 144, 208, 240, 256, 2, 34, 90};
  const std::pair<int64_t, int64_t> heads[] = {{1, 1}, {3, 1}, {2, 2}, {1, 4}};
  for (int turn = 0; turn < 28; ++turn) {
    const auto [groups, queries_per_group] = heads[draw(0, 3)];
    const int64_t length = turn < 6 ? turn + 1 : draw(1, 300);
    Whole whole = drawn(length < 64 ? 4 : draw(1, 2), length, {groups, queries_per_group, widths[turn % 12]});
    if (draw(0, 2) > 0) add_rotation(whole);
    if (draw(0, 1) == 1) add_documents(whole, draw(0, 1) == 1 ? length : 20);
    if (draw(0, 3) == 0) {
      whole.visibility = Visibility::all;
    } else if (draw(0, 1) == 1) {
      whole.window = draw(1, length + 10);
    }
    std::vector<Call> calls = all_calls(drawn_ranges(length, 4), drawn_ranges(length, 5));
    std::shuffle(calls.begin(), calls.end(), random_);
    SCOPED_TRACE(fmt::format("turn {} length {} head_dim {} window {}", turn, length, widths[turn % 12], whole.window));
    const Results exact = exact_results(whole), theirs = by_joint_attention(whole, AttentionChoice::fastest);
    add_errors(own, by_parts(whole, calls, AttentionChoice::fastest), theirs, exact);
    if (turn % 2 == 0) add_errors(separate, by_parts(whole, calls, AttentionChoice::torch), theirs, exact);
  }
  own.expect_as_accurate();
  separate.expect_as_accurate();
}

// Several blocks of queries and keys, and several pieces of the sums over queries.
TEST_P(PartialAttentionTest, MatchesDoublePrecisionForSeveralBlocks) {
  at::set_num_threads(2);
  for (int variant = 0; variant < 4; ++variant) {
    testing::ErrorTally tally(GetParam());
    Whole whole = drawn(1, 1100, {1, 2, 32});
    add_rotation(whole);
    if (variant == 1) whole.window = 300;
    if (variant == 2) add_documents(whole, 400);
    if (variant == 3) {
      add_documents(whole, 300);
      whole.visibility = Visibility::all;
    }
    const std::vector<Call> calls = all_calls({{0, 1100}}, {{0, 513}, {513, 700}, {700, 1100}});
    add_errors(tally, by_parts(whole, calls, AttentionChoice::fastest),
               by_joint_attention(whole, AttentionChoice::fastest), exact_results(whole));
    SCOPED_TRACE(variant);
    tally.expect_as_accurate();
  }
}

TEST_P(PartialAttentionTest, ErrorDoesNotGrowWithTheNumberOfRanges) {
  at::set_num_threads(2);
  Whole whole = drawn(2, 512, {2, 2, 64});
  add_rotation(whole);
  const Results exact = exact_results(whole), theirs = by_joint_attention(whole, AttentionChoice::fastest);
  for (int64_t count : {1, 2, 4, 8, 16}) {
    const std::vector<Range> ranges = even_ranges(512, count);
    std::vector<Call> calls;
    // Each rank begins with its own keys and goes on with those of the rank before it, as in a ring.
    for (int64_t rank = 0; rank < count; ++rank) {
      for (int64_t step = 0; step < count; ++step)
        calls.emplace_back(ranges[rank], ranges[(rank + count - step) % count]);
    }
    testing::ErrorTally tally(GetParam());
    add_errors(tally, by_parts(whole, calls, AttentionChoice::fastest), theirs, exact);
    SCOPED_TRACE(count);
    tally.expect_as_accurate();
  }
}

// Rank r of C has stripes r and 2C - 1 - r of 2C.
TEST_P(PartialAttentionTest, MatchesDoublePrecisionForHeadAndTailStripes) {
  at::set_num_threads(2);
  for (int64_t ranks : {1, 2, 3}) {
    Whole whole = drawn(2, 48 * ranks, {2, 2, 48});
    add_rotation(whole);
    add_documents(whole, 60);
    const std::vector<Range> stripes = even_ranges(whole.length(), 2 * ranks);
    std::vector<Call> calls;
    for (int64_t step = 0; step < ranks; ++step) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const int64_t other = (rank + step) % ranks;
        for (int64_t own : {rank, 2 * ranks - 1 - rank}) {
          for (int64_t key : {other, 2 * ranks - 1 - other}) calls.emplace_back(stripes[own], stripes[key]);
        }
      }
    }
    testing::ErrorTally tally(GetParam());
    add_errors(tally, by_parts(whole, calls, AttentionChoice::fastest),
               by_joint_attention(whole, AttentionChoice::fastest), exact_results(whole));
    SCOPED_TRACE(ranks);
    tally.expect_as_accurate();
  }
}

TEST_P(PartialAttentionTest, SameBitsOnAnyThreads) {
  const int threads = at::get_num_threads();
  for (const HeadLayout& layout : {HeadLayout{1, 4, 64}, HeadLayout{3, 1, 52}}) {
    Whole whole = drawn(1, 700, layout);
    add_rotation(whole);
    add_documents(whole, 500);
    const std::vector<Call> calls = all_calls({{0, 300}, {300, 700}}, {{0, 150}, {150, 410}, {410, 700}});
    const auto compute = [&](int count) {
      at::set_num_threads(count);
      return by_parts(whole, calls, AttentionChoice::fastest);
    };
    const Results alone = compute(1);
    for (int count : {2, 3}) {
      const Results together = compute(count);
      EXPECT_TRUE(together.context.equal(alone.context)) << count;
      EXPECT_TRUE(together.queries.equal(alone.queries)) << count;
      EXPECT_TRUE(together.keys.equal(alone.keys)) << count;
      EXPECT_TRUE(together.values.equal(alone.values)) << count;
    }
  }
  at::set_num_threads(threads);
}

// A range of which no query sees a key changes no bit, before others and after them.
TEST_P(PartialAttentionTest, IgnoresRangesWithoutAVisibleKey) {
  for (AttentionChoice choice : {AttentionChoice::fastest, AttentionChoice::torch}) {
    Whole whole = drawn(2, 200, {2, 2, 48});
    whole.window = 30;
    const Call seen = {{100, 200}, {60, 200}}, later = {{0, 50}, {50, 90}}, before_window = {{100, 200}, {0, 70}};
    const Call own = {{0, 50}, {0, 50}};
    const Results without = by_parts(whole, {seen, own}, choice);
    const Results with = by_parts(whole, {later, before_window, seen, own, later, before_window}, choice);
    EXPECT_TRUE(with.context.equal(without.context));
    EXPECT_TRUE(with.queries.equal(without.queries));
    EXPECT_TRUE(with.keys.equal(without.keys));
    EXPECT_TRUE(with.values.equal(without.values));
    // Queries 50 .. 99 have seen nothing.
    EXPECT_TRUE(with.context.narrow(1, 50, 50).eq(0).all().item<bool>());
    EXPECT_TRUE(with.queries.narrow(1, 50, 50).eq(0).all().item<bool>());
    EXPECT_TRUE(at::isfinite(with.keys).all().item<bool>());
  }
}

// The logarithms of the sums differ by more than an exponential of either can hold: the larger one decides.
TEST_P(PartialAttentionTest, MergesHugeScores) {
  const Range queries{0, 40}, first{0, 40}, second{40, 80};
  for (AttentionChoice choice : {AttentionChoice::fastest, AttentionChoice::torch}) {
    for (double sign : {1.0, -1.0}) {
      Whole whole = drawn(1, 80, {1, 1, 64});
      whole.visibility = Visibility::all;
      const JointViews views = joint_views(whole.joint, whole.layout);
      views.queries.fill_(16);
      views.keys.narrow(1, 0, 40).fill_(16 * sign);  // scores 2048 * sign, 2955 * sign as powers of two
      views.keys.narrow(1, 40, 40).fill_(-16 * sign);
      const Results merged = by_parts(whole, {{queries, first}, {queries, second}}, choice);
      const Results turned = by_parts(whole, {{queries, second}, {queries, first}}, choice);
      const Results larger = by_parts(whole, {{queries, sign > 0 ? first : second}}, choice);
      // o + (o' - o) is rounded twice, and the smallest probability of a kernel is 2^-126.
      const double tolerance = 2 * testing::unit_roundoff(GetParam());
      for (const Results* results : {&merged, &turned}) {
        EXPECT_TRUE(results->context.allclose(larger.context, tolerance, tolerance));
        EXPECT_TRUE(results->values.allclose(larger.values, tolerance, tolerance));
        EXPECT_TRUE(at::isfinite(results->queries).all().item<bool>());
        EXPECT_TRUE(at::isfinite(results->keys).all().item<bool>());
      }
    }
  }
}

TEST_P(PartialAttentionTest, ShowsANaN) {
  Whole whole = drawn(1, 60, {1, 1, 64});
  whole.joint[0][20].fill_(std::numeric_limits<float>::quiet_NaN());
  for (AttentionChoice choice : {AttentionChoice::fastest, AttentionChoice::torch}) {
    const Results results = by_parts(whole, all_calls({{0, 60}}, {{0, 10}, {10, 30}, {30, 60}}), choice);
    EXPECT_FALSE(at::isfinite(results.context).narrow(1, 20, 40).any().item<bool>());
  }
}

TEST_P(PartialAttentionTest, RefusesPositionsBeyondTheTable) {
  Whole whole = drawn(1, 20, {1, 1, 16});
  whole.table = rotary_table(10, 16, 500.0, at::kCPU);
  const std::vector<Call> whole_call = {{{0, 20}, {0, 20}}}, later_keys = {{{0, 5}, {8, 12}}};
  EXPECT_THROW(by_parts(whole, whole_call, AttentionChoice::fastest), UserError);
  EXPECT_THROW(by_parts(whole, later_keys, AttentionChoice::fastest), UserError);
  whole.positions = at::full({1, 20}, 10, at::kLong);
  EXPECT_THROW(by_parts(whole, whole_call, AttentionChoice::fastest), UserError);
}

INSTANTIATE_TEST_SUITE_P(Types, PartialAttentionTest, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

// Without a fused kernel, in the type of checks.
TEST(PartialAttentionInDouble, MatchesTheDefinition) {
  const HeadLayout layout{2, 3, 10};
  Whole whole{.layout = layout,
              .window = 40,
              .table = rotary_table(90, 10, 500.0, at::kCPU),
              .joint = at::randn({2, 90, layout.columns()}, at::kDouble),
              .upstream = at::randn({2, 90, 60}, at::kDouble)};
  const Results ours = by_parts(whole, all_calls({{0, 33}, {33, 90}}, {{0, 50}, {50, 90}}), AttentionChoice::fastest);
  const Results exact = exact_results(whole);
  // Sums of at most 90 terms of about 1: some 1e-14.
  EXPECT_TRUE(ours.context.allclose(exact.context, 1e-12, 1e-12));
  EXPECT_TRUE(ours.queries.allclose(exact.queries, 1e-12, 1e-12));
  EXPECT_TRUE(ours.keys.allclose(exact.keys, 1e-12, 1e-12));
  EXPECT_TRUE(ours.values.allclose(exact.values, 1e-12, 1e-12));
}

// Queries 4 .. 7 see the keys 2 .. 4, 3 .. 5, 4 and 5, and 5 of the range 2 .. 5: nine pairs.
TEST(PartialAttentionCost, CountsThePairsThatAreSeen) {
  const HeadLayout layout{2, 3, 8};
  if (attention_kernels(at::kCPU, at::kFloat, layout) == nullptr) {
    GTEST_SKIP() << "torch's products are counted by themselves";
  }
  const at::Tensor joint = at::randn({2, 8, layout.columns()}), upstream = at::randn({2, 4, 48});
  const PartialAttention part{.layout = layout,
                              .window = 3,
                              .queries = {joint.narrow(1, 4, 4), 4},
                              .keys = {keys_and_values(joint, layout).narrow(1, 2, 4), 2}};
  const RunningContext running = empty_context(part.queries.vectors, layout);
  const at::Tensor products = at::zeros({2, 6, 4});
  const PartialGradients gradients{at::zeros({2, 4, 6, 8}), at::zeros({2, 4, 2, 2, 8})};
  const auto flops_of = [](const auto& action) {
    profile::OperationRecorder recorder(at::kCPU);
    {
      const profile::PhaseRecord step(observe::step_phase, 1);
      action();
    }
    return observe::sum_of(observe::count_operations(recorder.finish()), "terrace::partial_attention").flops;
  };
  constexpr double elements = 2 * 6 * 8 * 9;
  EXPECT_EQ(flops_of([&] { add_attention(part, running); }), 4 * elements);
  EXPECT_EQ(flops_of([&] { add_attention_gradients(part, running.log_sums, products, upstream, gradients); }),
            10 * elements);
}

}  // namespace
}  // namespace terrace::ops
