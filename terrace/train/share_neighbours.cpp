// Finds the slots of each node, and waits for messages without taking a core.
#include "terrace/train/share_neighbours.h"

#include <chrono>
#include <map>
#include <thread>
#include <utility>

namespace terrace::train {
namespace {

constexpr auto pause = std::chrono::microseconds(200);

// The slots whose samples the data-parallel ranks read, as fractions of a step.
std::set<int64_t> slots_of(const ShareNodes& shares, const std::set<int64_t>& data_ranks) {
  std::set<int64_t> slots;
  for (const int64_t rank : data_ranks) {
    const int64_t begin = rank * shares.shares / shares.data_ranks;
    const int64_t end = ((rank + 1) * shares.shares + shares.data_ranks - 1) / shares.data_ranks;
    for (int64_t slot = begin; slot < end; ++slot) slots.insert(slot);
  }
  return slots;
}

}  // namespace

std::optional<std::vector<ShareNeighbours>> share_neighbours(const ShareNodes& shares,
                                                             const std::vector<std::set<int64_t>>& data_ranks) {
  std::map<int64_t, std::vector<int64_t>> nodes;  // by first slot: the nodes that read from this slot on
  std::map<int64_t, int64_t> next_slot;           // by first slot: the slot after the last one of these nodes
  for (size_t node = 0; node < data_ranks.size(); ++node) {
    const std::set<int64_t> slots = slots_of(shares, data_ranks[node]);
    if (slots.empty()) continue;
    const int64_t first = *slots.begin(), end = *slots.rbegin() + 1;
    if (end - first != static_cast<int64_t>(slots.size())) return std::nullopt;
    if (next_slot.contains(first) && next_slot[first] != end) return std::nullopt;
    next_slot[first] = end;
    nodes[first].push_back(static_cast<int64_t>(node));
  }
  if (nodes.size() < 2) return std::nullopt;
  std::vector<ShareNeighbours> list(data_ranks.size());
  for (const auto& [first, takers] : nodes) {
    const auto givers = nodes.find(next_slot[first] % shares.shares);
    if (givers == nodes.end() || givers->second.size() != takers.size()) return std::nullopt;
    for (size_t i = 0; i < takers.size(); ++i) {
      list[static_cast<size_t>(takers[i])].giver = givers->second[i];
      list[static_cast<size_t>(givers->second[i])].taker = takers[i];
    }
  }
  return list;
}

// The group has no time limit, since how long a neighbour needs to come to an exchange depends on its steps.
CommLinks::CommLinks(std::unique_ptr<comm::Comm> comm, ShareNeighbours neighbours)
    : comm_(std::move(comm)), neighbours_(neighbours) {
  comm_->lift_time_limit();
}

void CommLinks::up(std::span<const std::byte> to_giver, std::span<std::byte> from_taker) {
  move({to_giver, neighbours_.giver}, {from_taker, neighbours_.taker});
}

void CommLinks::down(std::span<const std::byte> to_taker, std::span<std::byte> from_giver) {
  move({to_taker, neighbours_.taker}, {from_giver, neighbours_.giver});
}

void CommLinks::move(const Out& out, const In& in) {
  comm::Work receives, sends;
  constexpr comm::Label label{.what = "exchange shares"};
  if (!in.bytes.empty()) {
    const auto count = static_cast<int64_t>(in.bytes.size());
    receives = comm_->receive(in.bytes.data(), count, comm::Type::uint8, in.member, label);
  }
  if (!out.bytes.empty()) {
    const auto count = static_cast<int64_t>(out.bytes.size());
    sends = comm_->send(out.bytes.data(), count, comm::Type::uint8, out.member, label);
  }
  wait(receives);
  wait(sends);
}

void CommLinks::wait(comm::Work& work) const {
  while (!work.done()) {
    if (cancelled_) throw comm::CommError("the exchange of shares was given up");
    std::this_thread::sleep_for(pause);
  }
  work.wait();
}

}  // namespace terrace::train
