// Passes extents from node to node where shares of the data move on (data.order = "node"): each node takes what it will
// read next from one other node, and gives a third one what that node will read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "terrace/data/staging/extents.h"
#include "terrace/data/staging/staging_buffer.h"

namespace terrace::data {

// Passes messages of one node to the node that gives to it and to the node that takes from it, which may be the same
// one. All nodes make matching calls in the same order. Where a span is empty, nothing goes in that direction, and the
// other side knows that. The calls return when the bytes have arrived and those to send can be overwritten, and throw
// where a node has died or after cancel().
class NodeLinks {
 public:
  virtual ~NodeLinks() = default;
  virtual void up(std::span<const std::byte> to_giver, std::span<std::byte> from_taker) = 0;
  virtual void down(std::span<const std::byte> to_taker, std::span<std::byte> from_giver) = 0;
  virtual void cancel() = 0;  // called by another thread
};

// The interface of an exchange to the process that copies.
class ExchangeSide {
 public:
  virtual ~ExchangeSide() = default;
  // Returns the first extents that this node will read and does not have, in the order of their use.
  virtual std::vector<uint32_t> missing(size_t at_most) = 0;
  // An extent that the taker will ask for stays in the buffer from hold() to release().
  virtual void hold(uint32_t extent) = 0;
  virtual void release(uint32_t extent) = 0;
  struct Received {
    uint32_t extent = 0;
    std::span<const std::byte> bytes = {};  // empty where the giver does not have it
  };
  // Stores the extents that missing() named, in its order. Returns whether there may be room for more.
  virtual bool store(std::span<const Received> received) = 0;
  // Returns whether the run ends, so that nothing more is to be taken or given.
  virtual bool ending() = 0;
};

// An exchange has as many turns as its nodes need: in each a node names a few extents, gives what the taker named, and
// stores what came, in the place of what it gave. No node needs room for more than it had.
class ShareExchange {
 public:
  // `extents` have the same numbers on all nodes.
  ShareExchange(std::shared_ptr<NodeLinks> links, std::shared_ptr<const StagingBuffer> buffer, const Extents& extents);

  // Takes part in the exchange that all nodes have next. A node that ends takes part in one more with side.ending(),
  // unless a neighbour has ended already; after that exchange there is none with the node.
  void run(ExchangeSide& side);

 private:
  static constexpr uint64_t turn_bytes = uint64_t{4} << 20, most_of_turn = 64;  // at most, of a turn
  using Numbers = std::vector<uint32_t>;

  void open(ExchangeSide& side);
  void turn(ExchangeSide& side);
  // Adds the bytes of the extents that are in the buffer to sent_. Returns a number 1 for each of them, and 0 for the
  // others.
  Numbers collect(std::span<const uint32_t> extents);
  // Returns the extents with their bytes in received_, which are empty where the extent's number in `present` is 0.
  std::vector<ExchangeSide::Received> arrived(std::span<const uint32_t> extents,
                                              std::span<const uint32_t> present) const;

  std::shared_ptr<NodeLinks> links_;
  std::shared_ptr<const StagingBuffer> buffer_;
  const Extents& extents_;
  size_t of_turn_;                                  // the most extents of a turn
  bool giver_ended_ = false, taker_ended_ = false;  // the neighbour has ended, or this node has for it
  bool takes_ = false, gives_ = false;              // whether this node still does so in this exchange
  bool has_room_ = true;
  Numbers held_;
  std::vector<std::byte> sent_, received_;
};

}  // namespace terrace::data
