// Measures how fast each rank of a job computes, copies and sends, to find the one that is slow.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/machine/machine.h"

namespace terrace::measure {

// How unequal the times of equal products are, by their quartiles and by the longest one; and each a second: FLOPs of
// bf16 products on a GPU and of fp32 products on a CPU, bytes that copies read and write, and bytes that are sent to
// the other ranks while these send back.
struct RankSpeed {
  double product_flops = 0, copied_bytes = 0;
  double product_spread = 0, longest_product = 0;      // shares of the median
  std::vector<std::pair<int64_t, double>> links = {};  // (rank, bytes a second)
};

// Called by all ranks of the world together, each with the threads it trains with; takes about two seconds, and longer
// over slow links. All ranks compute at the same time, and all pairs of ranks of one kind send at the same time:
// neighbours in a node, then ranks with the same place in neighbouring nodes. Rates are means over the time, so that
// pauses count.
RankSpeed measure_rank_speed(comm::World& world, const at::Device& device);

// The figures that the machine's description gives for such a rank of a job of so many ranks; 0 where it gives none.
RankSpeed described_speed(const machine::Machine& machine, const at::Device& device, int64_t rank,
                          const RankSpeed& measured);

}  // namespace terrace::measure
