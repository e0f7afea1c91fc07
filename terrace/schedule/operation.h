// Describes what a unit of a model computes and communicates on one rank, without tensors: a planner computes times
// from it on a machine, which multiplies matrices of some shapes faster than others.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace terrace::schedule {

struct Operation {
  enum class Kind {
    product,    // `count` products [m, k] x [k, n]
    attention,  // of `count` heads: m queries, n keys, width k
    elements,   // `count` kernels that pass over memory; 0: done within the kernel of a product
  };
  Kind kind = Kind::elements;
  std::string_view name = {};  // a literal that says what is computed: "qkv", "norm"
  int64_t m = 0, n = 0, k = 0;
  int64_t count = 1;
  // Bytes that all `count` together read and write: every operand once, and twice where it is changed in place. With
  // attention that is not fused, the passes over the scores are counted too.
  double bytes = 0;

  // Fields of attention only.
  bool causal = false;    // a query sees about half of the keys
  int64_t window = 0;     // of causal attention: the keys that a query sees at most; 0: all
  bool backward = false;  // the gradients of queries, keys and values
  // Whether attention is one kernel that keeps no scores and computes them again in backward; else each step is an
  // operation over all of the scores, also where they are causal.
  bool fused = true;

  // Two for each multiply-add. Attention has two products in forward and four in backward, a fifth where scores are
  // computed again; of fused causal attention each is half of the square, and less with a window.
  double flops() const;
  // The pairs of a query and a key in its window, of all pairs.
  double share_in_window() const;
  bool operator==(const Operation&) const = default;
};

// The product of one [m, k] and one [k, n] whose elements have `element_bytes`.
Operation matrix_product(std::string_view name, int64_t m, int64_t n, int64_t k, int64_t element_bytes);
Operation memory_pass(std::string_view name, double bytes, int64_t kernels = 1);
// An operation that is repeated so many times.
Operation repeated(int64_t count, Operation one);

// A linear layer on one rank: y [rows, outputs] = x [rows, inputs] W^T + b.
struct LinearLayer {
  std::string_view name;
  int64_t rows = 0, inputs = 0, outputs = 0;
  bool bias = true;
  int64_t element_bytes = 4, gradient_bytes = 4;
};

// The three products of a layer. The one for the weight is added to its gradient in the same kernel.
Operation forward_product(const LinearLayer& layer);
Operation input_gradient_product(const LinearLayer& layer);
Operation weight_gradient_product(const LinearLayer& layer);
// The sums of y's gradient over `rows` rows that are added to the gradient of b.
Operation bias_gradient_sums(const LinearLayer& layer, int64_t rows);

// A collective of the tensor ranks.
struct TensorCollective {
  enum class Kind { all_reduce, all_gather, reduce_scatter };
  // The computation of the rank during the collective.
  enum class Meanwhile {
    nothing,
    next_piece,        // pieces of the product whose result is summed in `count` pieces; the last is waited for
    weight_gradients,  // those of the same layer, unless the backward defers them
  };
  Kind kind = Kind::all_reduce;
  double bytes = 0;   // of whole tensors, the parts of all ranks together, in all calls together
  int64_t count = 1;  // of calls
  Meanwhile meanwhile = Meanwhile::nothing;

  bool operator==(const TensorCollective&) const = default;
};

// A transfer among the ranks that have other positions of the same samples (docs/context.md).
struct ContextTransfer {
  enum class Kind { shift, all_gather, reduce_scatter, exchange };
  Kind kind = Kind::shift;
  double bytes = 0;   // that one rank sends, in all calls together
  int64_t count = 1;  // of calls, one after the other
  // The share of the unit's attention that the rank computes meanwhile; transfers with such a share go side by side.
  double beside_attention = 0;

  bool operator==(const ContextTransfer&) const = default;
};

// All-to-alls among the ranks that divide experts (docs/experts.md), with even loads.
struct ExpertExchange {
  double bytes = 0;   // that one rank sends, in all calls together
  int64_t count = 1;  // of calls, one after the other

  bool operator==(const ExpertExchange&) const = default;
};

// The operations of one unit for one micro-batch on one rank, without what recompute repeats: in units of a layer all
// of `forward` and its collectives with "full", attention in forward with "selective". The order within a list has no
// meaning.
struct Operations {
  std::vector<Operation> forward = {}, input_gradient = {}, weight_gradient = {};
  // The collectives of the tensor ranks; there are none with one tensor rank. Weight gradients need none.
  std::vector<TensorCollective> forward_collectives = {}, backward_collectives = {};
  // The transfers among context ranks; none with one of them.
  std::vector<ContextTransfer> forward_transfers = {}, backward_transfers = {};
  // The exchanges among expert ranks; none with one of them.
  std::vector<ExpertExchange> forward_exchanges = {}, backward_exchanges = {};

  bool operator==(const Operations&) const = default;
};

}  // namespace terrace::schedule
