// Self-attention of sequences whose positions are cut over ranks (docs/context.md): by a ring (Liu et al., arXiv
// 2310.01889), by a gather of keys and values (Llama 3, arXiv 2407.21783, section 3.3.2), or by an exchange of
// positions for heads (DeepSpeed-Ulysses, Jacobs et al., arXiv 2309.14509).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "terrace/base/context_places.h"
#include "terrace/ops/attention/attention.h"
#include "terrace/ops/attention/self_attention.h"
#include "terrace/ops/cut.h"

namespace terrace::ops {

enum class ContextRoute : uint8_t { ring, gather, heads };

// The ranks among which the positions of each sequence are cut; Ranks::member() has the places of ContextPlaces of its
// number.
struct ContextCut {
  MovingRanks* ranks = nullptr;  // outlives the operation and its backward
  ContextPlaces places;
  ContextRoute route = ContextRoute::ring;
};

// joint [B, P, columns()] of this rank's P positions -> context [B, P, H * hd]. In `places`, positions and documents
// are those of the whole sequences, [B, T]. All ranks make the call at the same place, and its backward. Sums are fp32
// and rounded once, so the error does not grow with the number of ranks; with ContextRoute::heads the result has the
// bits of joint_attention() on one rank.
//
// ring and gather: backward brings keys and values to each rank once more, and the sums of their gradients home in
// fp32. heads: the ranks must divide the heads of queries; where keys have fewer heads than there are ranks, or heads
// that the ranks do not divide, each rank gets those that its queries need.
//
// Dropout of the probabilities, whose site is called `name`, needs all keys of a query at once, and so
// ContextRoute::heads.
at::Tensor context_attention(const at::Tensor& joint, const SelfAttention& attention, const TokenPlaces& places,
                             const DropoutSite& site, std::string_view name, const ContextCut& cut);

// This rank's positions of a tensor [B, T, ..] of whole sequences.
at::Tensor own_rows(const at::Tensor& whole, const ContextCut& cut);

}  // namespace terrace::ops
