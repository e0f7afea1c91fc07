// The route of context attention by which each rank gets all positions of some heads.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/ops/attention/context_attention.h"

namespace terrace::ops {

// The heads of one rank after the exchange, and the columns of the joint projection that it gets for them, which may be
// those of other ranks too where these need the same keys.
struct HeadsOfRank {
  HeadLayout layout;
  std::vector<int64_t> columns;
};
// `ranks` divides the heads.
HeadsOfRank heads_of_rank(const HeadLayout& layout, int64_t ranks, int64_t rank);

at::Tensor attention_by_heads(const at::Tensor& joint, const SelfAttention& attention, const TokenPlaces& places,
                              const DropoutSite& site, std::string_view name, const ContextCut& cut);

}  // namespace terrace::ops
