// Attention of sequences that are cut over ranks, by every route, against attention over the whole sequences: results
// and gradients, with documents, windows and shared keys, and the bytes that travel.
#include "terrace/ops/attention/context_attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "terrace/comm/threads/threads.h"
#include "terrace/mesh/rank_list.h"
#include "terrace/parallel/comm_ranks.h"

namespace terrace::parallel {
namespace {

struct Case {
  int64_t ranks = 2;
  ops::ContextRoute route = ops::ContextRoute::ring;
  ops::HeadLayout layout = {.groups = 2, .queries_per_group = 4, .head_dim = 16};
  ops::Visibility visibility = ops::Visibility::causal;
  int64_t window = 0;
  bool documents = false;
  at::ScalarType type = at::kFloat;
  bool balanced = false;  // places as for the pairs of documents

  ContextPlaces places() const {
    const bool striped = visibility == ops::Visibility::causal && window == 0;
    if (balanced) return balanced_places(96, ranks, drawn_work());
    return {.length = 96, .ranks = ranks, .striped = striped};
  }
  static std::vector<int64_t> drawn_work() {
    std::vector<int64_t> work;
    for (int64_t place = 0; place < 96; ++place) work.push_back(1 + place * place % 41);
    return work;
  }
};

struct Sample {
  at::Tensor joint, context_gradient;  // [B, T, ..] in double
  ops::TokenPlaces places;
  ops::RotaryTable table;
};

struct Result {
  at::Tensor context, joint_gradient;
};

Sample sample_of(const Case& one) {
  at::manual_seed(7);
  const int64_t batch = 2, length = one.places().length;
  Sample sample{.joint = at::randn({batch, length, one.layout.columns()}, at::kDouble),
                .context_gradient = at::randn({batch, length, one.layout.heads() * one.layout.head_dim}, at::kDouble),
                .places = {},
                .table = ops::rotary_table(length, one.layout.head_dim, 10'000.0, at::kCPU)};
  // The values have the type of the run, so that errors are those of the computation.
  sample.joint = sample.joint.to(one.type).to(at::kDouble);
  sample.context_gradient = sample.context_gradient.to(one.type).to(at::kDouble);
  if (!one.documents) return sample;
  const at::Tensor begins = at::randint(0, 9, {batch, length}, at::kLong).eq(0).to(at::kLong);
  begins.select(1, 0).fill_(0);
  sample.places.documents.numbers = begins.cumsum(1);
  sample.places.positions = at::empty({batch, length}, at::kLong);
  for (int64_t b = 0; b < batch; ++b) {
    int64_t position = 0;
    for (int64_t t = 0; t < length; ++t) {
      position = t > 0 && begins[b][t].item<int64_t>() == 0 ? position + 1 : 0;
      sample.places.positions[b][t] = position;
    }
  }
  return sample;
}

ops::SelfAttention attention_of(const Case& one) {
  return {.layout = one.layout, .visibility = one.visibility, .window = one.window};
}

// On one rank.
Result whole_result(const Case& one, const Sample& sample, at::ScalarType type) {
  const at::Tensor joint = sample.joint.to(type, false, /*copy=*/true).set_requires_grad(true);
  const at::Tensor context =
      ops::joint_attention(joint, one.layout, &sample.table, sample.places.positions, sample.places.documents,
                           ops::AttentionChoice::fastest, one.visibility, one.window);
  context.backward(sample.context_gradient.to(type));
  return {context.detach(), joint.grad()};
}

// On all ranks, put together.
Result cut_result(const Case& one, const Sample& sample, int64_t* sent_bytes = nullptr) {
  const ContextPlaces cut = one.places();
  Result whole{at::empty_like(sample.context_gradient, one.type), at::empty_like(sample.joint, one.type)};
  std::mutex mutex;
  comm::run_threads(one.ranks, {}, [&](comm::World& world) {
    const auto group = world.connect(mesh::all_ranks("context", one.ranks));
    CommRanks ranks(*group);
    const ops::ContextCut context_cut{.ranks = &ranks, .places = cut, .route = one.route};
    const at::Tensor joint = ops::own_rows(sample.joint.to(one.type), context_cut).contiguous().set_requires_grad(true);
    ops::TokenPlaces places = sample.places;
    places.table = &sample.table;
    const at::Tensor context = ops::context_attention(joint, attention_of(one), places, {}, "", context_cut);
    context.backward(ops::own_rows(sample.context_gradient.to(one.type), context_cut).contiguous());
    const std::lock_guard lock(mutex);
    int64_t at = 0;
    for (const PlaceRange& range : cut.ranges_of(world.rank())) {
      whole.context.narrow(1, range.begin, range.size).copy_(context.detach().narrow(1, at, range.size));
      whole.joint_gradient.narrow(1, range.begin, range.size).copy_(joint.grad().narrow(1, at, range.size));
      at += range.size;
    }
    if (sent_bytes == nullptr || world.rank() != 0) return;
    *sent_bytes = 0;
    for (const comm::Kind kind :
         {comm::Kind::send, comm::Kind::all_gather, comm::Kind::reduce_scatter, comm::Kind::all_to_all}) {
      *sent_bytes += group->traffic(kind).bytes;
    }
  });
  return whole;
}

double error_of(const at::Tensor& own, const at::Tensor& exact) {
  return own.to(at::kDouble).sub(exact).norm().item<double>() / exact.norm().item<double>();
}

void expect_whole(const Case& one) {
  const Sample sample = sample_of(one);
  const Result exact = whole_result(one, sample, at::kDouble), on_one = whole_result(one, sample, one.type);
  const Result cut = cut_result(one, sample);
  const double context = error_of(on_one.context, exact.context);
  const double gradient = error_of(on_one.joint_gradient, exact.joint_gradient);
  EXPECT_LE(error_of(cut.context, exact.context), 2 * context);
  EXPECT_LE(error_of(cut.joint_gradient, exact.joint_gradient), 2 * gradient);
}

constexpr ops::ContextRoute routes[] = {ops::ContextRoute::ring, ops::ContextRoute::gather, ops::ContextRoute::heads};

TEST(ContextAttention, IsThatOfOneRankByEveryRoute) {
  for (const ops::ContextRoute route : routes) {
    for (const int64_t ranks : {2, 4, 8}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        for (const bool documents : {false, true}) {
          SCOPED_TRACE(fmt::format("route {}, {} ranks, type {}, documents {}", static_cast<int>(route), ranks,
                                   c10::toString(type), documents));
          expect_whole({.ranks = ranks, .route = route, .documents = documents, .type = type});
        }
      }
    }
  }
}

TEST(ContextAttention, WithoutCausalityAndWithWindowsPiecesAreContiguous) {
  for (const ops::ContextRoute route : routes) {
    for (const int64_t ranks : {2, 4}) {
      SCOPED_TRACE(fmt::format("route {}, {} ranks", static_cast<int>(route), ranks));
      expect_whole({.ranks = ranks, .route = route, .visibility = ops::Visibility::all});
      for (const int64_t window : {1, 10, 40, 200}) {
        SCOPED_TRACE(fmt::format("window {}", window));
        expect_whole({.ranks = ranks, .route = route, .window = window});
        expect_whole({.ranks = ranks, .route = route, .window = window, .documents = true});
      }
    }
  }
}

TEST(ContextAttention, PlacesMayBeAnyPieces) {
  for (const ops::ContextRoute route : routes) {
    for (const int64_t ranks : {2, 4}) {
      SCOPED_TRACE(fmt::format("route {}, {} ranks", static_cast<int>(route), ranks));
      const Case one{.ranks = ranks, .route = route, .documents = true, .balanced = true};
      EXPECT_GT(one.places().ranges_of(0).size(), 2u);
      expect_whole(one);
    }
  }
}

TEST(ContextAttention, HeadsThatShareKeysAreDividedAsTheirQueriesAre) {
  for (const int64_t groups : {1, 3, 6, 12}) {
    const ops::HeadLayout layout{.groups = groups, .queries_per_group = 12 / groups, .head_dim = 8};
    for (const int64_t ranks : {2, 3, 4}) {
      SCOPED_TRACE(fmt::format("{} groups, {} ranks", groups, ranks));
      expect_whole({.ranks = ranks, .route = ops::ContextRoute::heads, .layout = layout});
    }
  }
}

// The formulas of docs/context.md: keys and values once in forward and once in backward, and their gradients in fp32.
TEST(ContextAttention, SendsTheBytesOfEachRoute) {
  for (const int64_t ranks : {2, 4}) {
    for (const ops::ContextRoute route : routes) {
      const Case one{.ranks = ranks, .route = route, .type = at::kBFloat16};
      const Sample sample = sample_of(one);
      int64_t sent = 0;
      cut_result(one, sample, &sent);
      const int64_t batch = 2, own = one.places().own_length(), hd = one.layout.head_dim;
      const int64_t keys = batch * own * 2 * one.layout.groups * hd, queries = batch * own * one.layout.heads() * hd;
      const int64_t key_heads = std::max(one.layout.groups, ranks);  // keys are repeated where there are fewer
      const int64_t exchanged = 2 * queries + batch * own * 2 * key_heads * hd;
      EXPECT_EQ(sent, route == ops::ContextRoute::heads ? 2 * exchanged * 2 * (ranks - 1) / ranks
                                                        : keys * (2 + 2 + 4) * (ranks - 1))
          << ranks << " ranks, route " << static_cast<int>(route);
    }
  }
}

}  // namespace
}  // namespace terrace::parallel
