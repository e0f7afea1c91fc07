// Exchanges positions for heads, computes attention over whole sequences, and exchanges its result back.
#include "terrace/ops/attention/context_heads.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "terrace/base/error.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Blocks [ranks, B, P, ..] of all ranks' positions as whole sequences [B, T, ..], and back.
at::Tensor whole_of(const at::Tensor& blocks, const ContextPlaces& places) {
  at::Tensor whole = at::empty({blocks.size(1), places.length, blocks.size(3)}, blocks.options());
  for (int64_t rank = 0; rank < places.ranks; ++rank) {
    int64_t at = 0;
    for (const PlaceRange& range : places.ranges_of(rank)) {
      whole.narrow(1, range.begin, range.size).copy_(blocks[rank].narrow(1, at, range.size));
      at += range.size;
    }
  }
  return whole;
}

at::Tensor blocks_of(const at::Tensor& whole, const ContextPlaces& places) {
  at::Tensor blocks = at::empty({places.ranks, whole.size(0), places.own_length(), whole.size(2)}, whole.options());
  for (int64_t rank = 0; rank < places.ranks; ++rank) {
    int64_t at = 0;
    for (const PlaceRange& range : places.ranges_of(rank)) {
      blocks[rank].narrow(1, at, range.size).copy_(whole.narrow(1, range.begin, range.size));
      at += range.size;
    }
  }
  return blocks;
}

at::Tensor exchanged(const ContextCut& cut, const at::Tensor& blocks, const char* what) {
  at::Tensor received = at::empty_like(blocks);
  cut.ranks->exchange(blocks, received, what)->wait();
  return received;
}

struct HeadsExchange {
  ContextCut cut;
  HeadLayout layout;  // of the rank's projection

  at::Tensor columns_of(int64_t rank) const {
    return at::tensor(heads_of_rank(layout, cut.places.ranks, rank).columns, at::kLong);
  }
};

// joint [B, P, columns] of the own positions -> [B, T, columns of the own heads].
class ToHeads : public torch::autograd::Function<ToHeads> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& joint, HeadsExchange exchange) {
    std::vector<at::Tensor> blocks;
    for (int64_t rank = 0; rank < exchange.cut.places.ranks; ++rank) {
      blocks.push_back(joint.index_select(2, exchange.columns_of(rank).to(joint.device())));
    }
    const at::Tensor received = exchanged(exchange.cut, at::stack(blocks), "positions for heads");
    const at::Tensor whole = whole_of(received, exchange.cut.places);
    save_object(context, "exchange", std::move(exchange));
    return whole;
  }

  // Keys that several ranks got have the sum of their gradients, in the order of the ranks, rounded once.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("context_attention");
    const auto& exchange = saved_object<HeadsExchange>(context, "exchange");
    const at::Tensor received =
        exchanged(exchange.cut, blocks_of(gradients[0], exchange.cut.places), "gradients of heads for positions");
    const bool is_double = received.scalar_type() == at::kDouble;
    at::Tensor sum = at::zeros({received.size(1), received.size(2), exchange.layout.columns()},
                               received.options().dtype(is_double ? at::kDouble : at::kFloat));
    for (int64_t rank = 0; rank < exchange.cut.places.ranks; ++rank) {
      sum.index_add_(2, exchange.columns_of(rank).to(sum.device()), received[rank].to(sum.scalar_type()));
    }
    return {sum.to(received.scalar_type()), {}};
  }
};

// context [B, T, columns of the own heads] -> [B, P, columns of all heads].
class ToPositions : public torch::autograd::Function<ToPositions> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& whole, ContextCut cut) {
    const at::Tensor received = exchanged(cut, blocks_of(whole, cut.places), "heads for positions");
    save_object(context, "cut", std::move(cut));
    return at::cat(received.unbind(0), 2);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("context_attention");
    const auto& cut = saved_object<ContextCut>(context, "cut");
    const at::Tensor blocks = at::stack(gradients[0].chunk(cut.places.ranks, 2));
    return {whole_of(exchanged(cut, blocks, "gradients of positions for heads"), cut.places), {}};
  }
};

}  // namespace

HeadsOfRank heads_of_rank(const HeadLayout& layout, int64_t ranks, int64_t rank) {
  const int64_t heads = layout.heads() / ranks, first = rank * heads, hd = layout.head_dim;
  TERRACE_CHECK(heads * ranks == layout.heads(), "{} heads on {} ranks", layout.heads(), ranks);
  HeadsOfRank own;
  const auto add = [&](int64_t group, int64_t vector) {
    const int64_t begin = (group * (layout.queries_per_group + 2) + vector) * hd;
    for (int64_t i = 0; i < hd; ++i) own.columns.push_back(begin + i);
  };
  // Queries of each group on the rank: all of whole groups, some of one group, or one with a copy of its key.
  const int64_t per_group = layout.queries_per_group;
  const int64_t together = heads % per_group == 0 ? per_group : per_group % heads == 0 ? heads : 1;
  own.layout = {.groups = heads / together, .queries_per_group = together, .head_dim = hd};
  for (int64_t head = first; head < first + heads; head += together) {
    const int64_t group = head / per_group;
    for (int64_t i = 0; i < together; ++i) add(group, head % per_group + i);
    add(group, per_group);
    add(group, per_group + 1);
  }
  return own;
}

at::Tensor attention_by_heads(const at::Tensor& joint, const SelfAttention& attention, const TokenPlaces& places,
                              const DropoutSite& site, std::string_view name, const ContextCut& cut) {
  const at::Tensor whole = ToHeads::apply(joint, HeadsExchange{.cut = cut, .layout = attention.layout});
  const HeadLayout own = heads_of_rank(attention.layout, cut.places.ranks, cut.ranks->member()).layout;
  SelfAttention of_heads = attention;
  of_heads.layout = own;
  DropoutSite drawn = site;
  drawn.positions = {};
  drawn.first_head += cut.ranks->member() * own.heads();
  const at::Tensor context = self_attention(whole, of_heads, places, drawn, name);
  return ToPositions::apply(context, cut);
}

}  // namespace terrace::ops
