// Computes attention over ranges of keys as they come from other ranks, and sends their gradients home.
#include "terrace/ops/attention/context_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/ops/attention/context_heads.h"
#include "terrace/ops/attention/partial_attention.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using Pending = std::unique_ptr<Ranks::Pending>;

constexpr const char *keys_name = "keys and values", *gradients_name = "gradients of keys and values";

struct CutArguments {
  SelfAttention attention;
  RotaryTable table;                // undefined: no rotation
  at::Tensor positions, documents;  // of whole sequences: [B, T] int64 or undefined, as of TokenRange
  ContextCut cut;
};

// For each token the first place of its document; the tokens of a document are consecutive.
at::Tensor first_places(const at::Tensor& numbers) {
  if (!numbers.defined()) return {};
  const int64_t length = numbers.size(1);
  at::Tensor begins = at::zeros_like(numbers);
  const at::Tensor differs = numbers.narrow(1, 1, length - 1).ne(numbers.narrow(1, 0, length - 1));
  begins.narrow(1, 1, length - 1).copy_(differs.mul(at::arange(1, length, numbers.options())));
  return std::get<0>(begins.cummax(1));
}

// The pairs of a range of this rank's queries and a range of a rank's keys of which a query sees a key.
class Pairs {
 public:
  explicit Pairs(const CutArguments& arguments)
      : a_(arguments), own_(arguments.cut.ranks->member()), ranks_(arguments.cut.places.ranks) {}

  int64_t own() const { return own_; }
  // The rank so many places before this one.
  int64_t before(int64_t distance) const { return (own_ + ranks_ - distance) % ranks_; }
  // The largest distance at which some rank sees keys.
  int64_t farthest() const {
    for (int64_t distance = ranks_ - 1; distance > 0; --distance) {
      for (int64_t rank = 0; rank < ranks_; ++rank) {
        if (sees(rank, (rank + ranks_ - distance) % ranks_)) return distance;
      }
    }
    return 0;
  }

  // Calls body(part, place of the first query among this rank's, place of the first key among those of `from`) for the
  // queries in joint [B, P, columns()] and the keys and values of the rank `from`, [B, P, key_value_columns()].
  template <typename Body>
  void each(const at::Tensor& joint, const at::Tensor& keys_values, int64_t from, const Body& body) const {
    int64_t query_at = 0;
    for (const PlaceRange& queries : a_.cut.places.ranges_of(own_)) {
      int64_t key_at = 0;
      for (const PlaceRange& keys : a_.cut.places.ranges_of(from)) {
        if (sees(queries, keys)) {
          body(PartialAttention{.layout = a_.attention.layout,
                                .table = a_.table,
                                .visibility = a_.attention.visibility,
                                .window = a_.attention.window,
                                .queries = range(joint, query_at, queries),
                                .keys = range(keys_values, key_at, keys)},
               query_at, key_at);
        }
        key_at += keys.size;
      }
      query_at += queries.size;
    }
  }

 private:
  bool sees(const PlaceRange& queries, const PlaceRange& keys) const {
    if (a_.attention.visibility == Visibility::all) return true;
    const int64_t window = a_.attention.window;
    return keys.begin < queries.end() && (window == 0 || keys.end() - 1 > queries.begin - window);
  }
  bool sees(int64_t rank, int64_t from) const {
    for (const PlaceRange& queries : a_.cut.places.ranges_of(rank)) {
      for (const PlaceRange& keys : a_.cut.places.ranges_of(from)) {
        if (sees(queries, keys)) return true;
      }
    }
    return false;
  }
  TokenRange range(const at::Tensor& vectors, int64_t at, const PlaceRange& places) const {
    const auto of = [&](const at::Tensor& whole) {
      return whole.defined() ? whole.narrow(1, places.begin, places.size) : at::Tensor();
    };
    return {.vectors = vectors.narrow(1, at, places.size),
            .begin = places.begin,
            .positions = of(a_.positions),
            .documents = of(a_.documents)};
  }

  const CutArguments& a_;
  int64_t own_, ranks_;
};

// The state of a forward: adds the keys of one rank after the other.
class Forward {
 public:
  Forward(const CutArguments& arguments, const at::Tensor& joint)
      : a_(arguments), pairs_(arguments), joint_(joint), running_(empty_context(joint, arguments.attention.layout)) {}

  void add(const at::Tensor& keys_values, int64_t from) {
    pairs_.each(joint_, keys_values, from, [&](const PartialAttention& part, int64_t query_at, int64_t) {
      const int64_t size = part.queries.vectors.size(1);
      add_attention(part,
                    {.context = running_.context.narrow(1, query_at, size),
                     .log_sums = running_.log_sums.narrow(2, query_at, size)},
                    a_.attention.kernels);
    });
  }

  // Passes keys on while those at hand are used, the own ones first.
  void by_ring(at::Tensor keys_values) {
    const int64_t farthest = pairs_.farthest();
    for (int64_t distance = 0; distance <= farthest; ++distance) {
      at::Tensor next;
      Pending passing;
      if (distance < farthest) {
        next = at::empty_like(keys_values);
        passing = a_.cut.ranks->shift(keys_values, next, 1, keys_name);
      }
      add(keys_values, pairs_.before(distance));
      if (passing) passing->wait();
      keys_values = next;
    }
  }

  void by_gather(const at::Tensor& own) {
    std::vector<int64_t> sizes = own.sizes().vec();
    sizes.insert(sizes.begin(), a_.cut.ranks->size());
    const at::Tensor whole = at::empty(sizes, own.options());
    const Pending gathering = a_.cut.ranks->gather(own, whole, keys_name);
    add(own, pairs_.own());
    gathering->wait();
    for (int64_t distance = 1; distance < a_.cut.ranks->size(); ++distance) {
      add(whole[pairs_.before(distance)], pairs_.before(distance));
    }
  }

  const RunningContext& running() const { return running_; }

 private:
  const CutArguments& a_;
  Pairs pairs_;
  const at::Tensor& joint_;
  RunningContext running_;
};

struct SavedOfForward {
  at::Tensor joint, context, log_sums;
};

// The state of a backward.
class Backward {
 public:
  Backward(const CutArguments& arguments, const SavedOfForward& saved, const at::Tensor& context_gradient)
      : a_(arguments),
        pairs_(arguments),
        saved_(saved),
        context_gradient_(context_gradient),
        products_(context_products(saved.context, context_gradient, layout(), arguments.attention.kernels)),
        queries_(at::zeros({saved.joint.size(0), saved.joint.size(1), layout().heads(), layout().head_dim},
                           products_.options())) {}

  // Zeros for the sums of the keys and values of one rank.
  at::Tensor no_gradients() const {
    return at::zeros({saved_.joint.size(0), saved_.joint.size(1), layout().groups, 2, layout().head_dim},
                     products_.options());
  }

  // Adds the gradients of the keys of a rank to `sums`.
  void add(const at::Tensor& keys_values, int64_t from, const at::Tensor& sums) {
    pairs_.each(saved_.joint, keys_values, from, [&](const PartialAttention& part, int64_t query_at, int64_t key_at) {
      const int64_t size = part.queries.vectors.size(1), keys = part.keys.vectors.size(1);
      add_attention_gradients(
          part, saved_.log_sums.narrow(2, query_at, size), products_.narrow(2, query_at, size),
          context_gradient_.narrow(1, query_at, size),
          {.queries = queries_.narrow(1, query_at, size), .keys_values = sums.narrow(1, key_at, keys)},
          a_.attention.kernels);
    });
  }

  // Keys come from the farthest rank first, and go back towards the rank that they belong to, with the sums of their
  // gradients behind them. So the sums are at home after the last one, and the own keys, of which each rank has the
  // gradients first, are used while the farthest ones come.
  at::Tensor by_ring(const at::Tensor& own) {
    const int64_t farthest = pairs_.farthest();
    at::Tensor keys_values, next, arriving;
    Pending passing, summing;
    if (farthest > 0) {
      keys_values = at::empty_like(own);
      passing = a_.cut.ranks->shift(own, keys_values, farthest, keys_name);
    }
    const at::Tensor home = no_gradients();
    add(own, pairs_.own(), home);
    for (int64_t distance = farthest; distance > 0; --distance) {
      passing->wait();
      if (distance > 1) {
        next = at::empty_like(own);
        passing = a_.cut.ranks->shift(keys_values, next, -1, keys_name);
      }
      const at::Tensor sums = no_gradients();
      add(keys_values, pairs_.before(distance), sums);
      if (summing) {
        summing->wait();
        sums.add_(arriving);
      }
      arriving = at::empty_like(sums);
      summing = a_.cut.ranks->shift(sums, arriving, -1, gradients_name);
      keys_values = next;
    }
    if (summing) {
      summing->wait();
      home.add_(arriving);
    }
    return home;
  }

  at::Tensor by_gather(const at::Tensor& own) {
    const int64_t ranks = a_.cut.ranks->size();
    const auto of_all = [&](const at::Tensor& one) {
      std::vector<int64_t> sizes = one.sizes().vec();
      sizes.insert(sizes.begin(), ranks);
      return at::zeros(sizes, one.options());
    };
    const at::Tensor home = no_gradients(), whole = of_all(own), sums = of_all(home);
    const Pending gathering = a_.cut.ranks->gather(own, whole, keys_name);
    add(own, pairs_.own(), sums[pairs_.own()]);
    gathering->wait();
    for (int64_t distance = 1; distance < ranks; ++distance) {
      const int64_t from = pairs_.before(distance);
      add(whole[from], from, sums[from]);
    }
    a_.cut.ranks->sum_scatter(sums, home, gradients_name)->wait();
    return home;
  }

  at::Tensor joint_gradient(const at::Tensor& keys_values) const {
    at::Tensor gradient = at::empty_like(saved_.joint);
    write_query_gradients(queries_, layout(), gradient);
    write_key_value_gradients(keys_values, layout(), gradient);
    return gradient;
  }

 private:
  const HeadLayout& layout() const { return a_.attention.layout; }

  const CutArguments& a_;
  Pairs pairs_;
  const SavedOfForward& saved_;
  const at::Tensor& context_gradient_;
  at::Tensor products_, queries_;
};

class CutAttentionFunction : public torch::autograd::Function<CutAttentionFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& projection,
                            CutArguments arguments) {
    const at::Tensor joint = projection.contiguous();
    Forward forward(arguments, joint);
    const at::Tensor own = keys_and_values(joint, arguments.attention.layout);
    if (arguments.cut.route == ContextRoute::ring) {
      forward.by_ring(own);
    } else {
      forward.by_gather(own);
    }
    at::Tensor result = final_context(forward.running(), joint.scalar_type());
    context->save_for_backward({joint, result, forward.running().log_sums});
    save_object(context, "arguments", std::move(arguments));
    return result;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    refuse_second_derivative("context_attention");
    const auto saved = context->get_saved_variables();
    const auto& arguments = saved_object<CutArguments>(context, "arguments");
    const SavedOfForward of_forward{.joint = saved[0], .context = saved[1], .log_sums = saved[2]};
    const at::Tensor gradient = gradients[0].contiguous();
    Backward backward(arguments, of_forward, gradient);
    const at::Tensor own = keys_and_values(of_forward.joint, arguments.attention.layout);
    const bool ring = arguments.cut.route == ContextRoute::ring;
    return {backward.joint_gradient(ring ? backward.by_ring(own) : backward.by_gather(own)), {}};
  }
};

}  // namespace

at::Tensor own_rows(const at::Tensor& whole, const ContextCut& cut) {
  std::vector<at::Tensor> ranges;
  for (const PlaceRange& range : cut.places.ranges_of(cut.ranks->member())) {
    ranges.push_back(whole.narrow(1, range.begin, range.size));
  }
  return ranges.size() == 1 ? ranges.front() : at::cat(ranges, 1);
}

at::Tensor context_attention(const at::Tensor& joint, const SelfAttention& attention, const TokenPlaces& places,
                             const DropoutSite& site, std::string_view name, const ContextCut& cut) {
  TERRACE_CHECK(joint.size(1) == cut.places.own_length(), "{} positions of {} on {} ranks", joint.size(1),
                cut.places.length, cut.places.ranks);
  if (cut.route == ContextRoute::heads) return attention_by_heads(joint, attention, places, site, name, cut);
  TERRACE_CHECK(site.rate == 0.0, "dropout of probabilities needs the route 'heads'");
  CutArguments arguments{.attention = attention,
                         .table = places.table != nullptr ? *places.table : RotaryTable{},
                         .positions = places.positions,
                         .documents = first_places(places.documents.numbers),
                         .cut = cut};
  if (arguments.attention.window >= cut.places.length) arguments.attention.window = 0;
  return CutAttentionFunction::apply(joint, std::move(arguments));
}

}  // namespace terrace::ops
