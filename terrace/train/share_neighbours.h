// Determines which nodes pass shares of the data to each other (data.order = "node"), and sends their messages.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/data/staging/share_exchange.h"

namespace terrace::train {

// The numbers of the nodes that give shares to a node and take shares from it; below 0 where it passes nothing on.
struct ShareNeighbours {
  int64_t giver = -1, taker = -1;

  bool operator==(const ShareNeighbours&) const = default;
};

struct ShareNodes {
  int64_t shares = 1;      // data::NodeOrder
  int64_t data_ranks = 1;  // among which the samples of a step are divided in order
};

// The neighbours of each node, by the data-parallel coordinates of its ranks that read samples. The data that a node
// reads after an exchange and did not read before are the share of the next slot, which another node has. Where several
// nodes read the same slots, each takes from another one. Returns nothing where no node needs what another node has, or
// where nodes do not read whole shares.
std::optional<std::vector<ShareNeighbours>> share_neighbours(const ShareNodes& shares,
                                                             const std::vector<std::set<int64_t>>& data_ranks);

// Members of the group are the first ranks of the nodes.
class CommLinks : public data::NodeLinks {
 public:
  CommLinks(std::unique_ptr<comm::Comm> comm, ShareNeighbours neighbours);

  void up(std::span<const std::byte> to_giver, std::span<std::byte> from_taker) override;
  void down(std::span<const std::byte> to_taker, std::span<std::byte> from_giver) override;
  void cancel() override { cancelled_ = true; }

 private:
  struct Out {
    std::span<const std::byte> bytes;
    int64_t member;
  };
  struct In {
    std::span<std::byte> bytes;
    int64_t member;
  };
  void move(const Out& out, const In& in);
  void wait(comm::Work& work) const;

  std::unique_ptr<comm::Comm> comm_;
  ShareNeighbours neighbours_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace terrace::train
