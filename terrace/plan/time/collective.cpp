// Steps and bytes of each algorithm by tier, in the order of docs/cost_model.md.
#include "terrace/plan/time/collective.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "terrace/base/error.h"

namespace terrace::plan {
namespace {

using machine::Machine;
using machine::Tier;

int64_t divided_up(int64_t number, int64_t divisor) { return (number + divisor - 1) / divisor; }

// The steps in which a number of ranks that doubles reaches all.
int64_t doublings(int64_t ranks) { return std::bit_width(static_cast<uint64_t>(ranks) - 1); }

// Bytes of the whole tensor that a ring passes on in its rounds: gathers and reduce-scatters make one.
double rounds(CollectiveKind collective) { return collective == CollectiveKind::all_reduce ? 2 : 1; }

// The traffic of a group on the links of one tier: those out of the units of the tier inside it.
class TierUse {
 public:
  TierUse(const GroupPlace& place, const Machine& machine, size_t number)
      : tier_(machine.tiers[number]),
        is_network_(tier_.devices > machine.devices_of("node")),
        devices_inside_(number == 0 ? 1 : machine.tiers[number - 1].devices),
        members_inside_(number == 0 ? 1 : place.members[number - 1]),
        groups_inside_(number == 0 ? 1 : place.groups[number - 1]),
        members_(place.members[number]),
        units_inside_(divided_up(place.ranks, members_inside_)),
        units_(divided_up(place.ranks, members_)) {}

  double latency() const { return tier_.latency_seconds; }
  double message_time() const { return tier_.message_seconds > 0 ? tier_.message_seconds : tier_.latency_seconds; }
  bool is_network() const { return is_network_; }
  int64_t members_inside() const { return members_inside_; }
  int64_t members() const { return members_; }
  int64_t units_inside() const { return units_inside_; }
  int64_t units() const { return units_; }

  // Whether data between units of the tier inside pass over the tier's links: all that leaves a node passes over the
  // links out of the node, wherever it goes, but links inside a node only carry what stays there.
  bool is_used() const { return units_inside_ > (is_network_ ? 1 : units_); }

  // The units of the tier inside among which one of these exchanges data over the tier's links.
  int64_t others() const { return units_inside_ - (is_network_ ? 1 : units_); }

  // Edges of a ring in the order of the devices which lead out of a unit of the tier inside and stay in one of the
  // tier.
  int64_t ring_edges() const { return closed(units_inside_) - closed(units_); }

  // Seconds in which each group sends so many bytes out of a unit of the tier inside. A device can use one link, or all
  // of its own.
  double seconds(double bytes) const {
    const double links = static_cast<double>(devices_inside_) / tier_.devices_per_link;
    const double reached =
        static_cast<double>(members_inside_ * groups_inside_) * std::max(1.0, 1 / tier_.devices_per_link);
    return bytes * static_cast<double>(groups_inside_) / (std::min(links, reached) * tier_.link_bandwidth);
  }

  // Seconds for so many bytes in a direct exchange among so many ranks.
  double direct_seconds(double bytes, int64_t ranks) const {
    const bool is_crowded = tier_.direct_ranks > 0 && ranks > tier_.direct_ranks;
    return seconds(bytes) / (is_crowded ? tier_.direct_share : 1);
  }

 private:
  static int64_t closed(int64_t units) { return units > 1 ? units : 0; }

  const Tier& tier_;
  bool is_network_;
  int64_t devices_inside_, members_inside_, groups_inside_, members_;
  int64_t units_inside_, units_;  // units that have members
};

// One collective by one algorithm: latencies and transfers of the tiers are added to it.
struct Sum {
  CollectiveTime time;
  double most = 0;  // seconds of transfers on the tier that limits

  // The steps of a pipelined algorithm proceed on all tiers at the same time.
  void transfer_meanwhile(size_t tier, double seconds) {
    if (seconds <= most) return;
    most = seconds;
    time.tier = static_cast<int64_t>(tier);
    time.seconds = seconds;
  }
  void transfer_then(size_t tier, double seconds) {
    time.seconds += seconds;
    if (seconds <= most) return;
    most = seconds;
    time.tier = static_cast<int64_t>(tier);
  }
  CollectiveTime with_latency(double seconds) {
    time.latency_seconds = seconds;
    time.seconds += seconds;
    return time;
  }
};

CollectiveTime ring_time(CollectiveKind collective, double bytes, const GroupPlace& place, const Machine& machine) {
  Sum sum;
  double around = 0, shortest = std::numeric_limits<double>::infinity();
  for (size_t number = 0; number < machine.tiers.size(); ++number) {
    const TierUse use(place, machine, number);
    if (use.ring_edges() > 0) {
      shortest = std::min(shortest, use.latency());
      around += static_cast<double>(use.ring_edges()) * use.latency();
    }
    const auto ranks = static_cast<double>(place.ranks);
    if (use.is_used()) {
      sum.transfer_meanwhile(number, use.seconds(rounds(collective) * bytes * (ranks - 1) / ranks));
    }
  }
  sum.time.algorithm = Algorithm::ring;
  return sum.with_latency(rounds(collective) * (around - shortest));
}

// The time of an all-reduce.
CollectiveTime tree_time(double bytes, const GroupPlace& place, const Machine& machine) {
  Sum sum;
  double latency = 0;
  int64_t in_node = 1;  // members of one node
  for (size_t number = 0; number < machine.tiers.size(); ++number) {
    if (!TierUse(place, machine, number).is_network()) in_node = place.members[number];
  }
  for (size_t number = 0; number < machine.tiers.size(); ++number) {
    const TierUse use(place, machine, number);
    const int64_t chain = divided_up(in_node, use.members_inside()) - divided_up(in_node, use.members());
    const int64_t levels = doublings(use.units_inside()) - doublings(use.units());
    latency += static_cast<double>(2 * (use.is_network() ? levels : chain)) * use.latency();
    if (use.is_used()) sum.transfer_meanwhile(number, use.seconds(2 * bytes));
  }
  sum.time.algorithm = Algorithm::tree;
  return sum.with_latency(latency);
}

CollectiveTime doubling_time(CollectiveKind collective, double bytes, const GroupPlace& place, const Machine& machine) {
  Sum sum;
  double latency = 0;
  const double block = bytes / static_cast<double>(place.ranks);
  for (size_t number = 0; number < machine.tiers.size(); ++number) {
    const TierUse use(place, machine, number);
    const auto steps = static_cast<double>(doublings(use.units_inside()) - doublings(use.units()));
    latency += rounds(collective) * steps * use.latency();
    if (!use.is_used()) continue;
    const auto blocks = static_cast<double>(use.members_inside() * use.others());
    sum.transfer_then(number, use.seconds(rounds(collective) * blocks * block));
  }
  sum.time.algorithm = Algorithm::recursive_doubling;
  return sum.with_latency(latency);
}

// The time of a gather, with the ranks in the order of the devices: the largest pieces go to the farthest ranks.
CollectiveTime bruck_time(double bytes, const GroupPlace& place, const Machine& machine) {
  const double block = bytes / static_cast<double>(place.ranks);
  CollectiveTime time{.algorithm = Algorithm::bruck};
  double most = 0;  // seconds of transfers in one step
  for (int64_t distance = 1; distance < place.ranks; distance *= 2) {
    // The number of so many members of a unit that have their partner in another unit.
    const auto leaving = [&](int64_t members) {
      return static_cast<double>(members < place.ranks ? std::min(distance, members) : 0);
    };
    Sum step;
    double latency = 0;
    for (size_t number = 0; number < machine.tiers.size(); ++number) {
      const TierUse use(place, machine, number);
      if (!use.is_used()) continue;
      latency = use.latency();
      double senders = leaving(use.members_inside());
      if (!use.is_network()) {
        senders -=
            leaving(use.members()) * static_cast<double>(use.members_inside()) / static_cast<double>(use.members());
      }
      const auto blocks = static_cast<double>(std::min(distance, place.ranks - distance));
      step.transfer_meanwhile(number, use.seconds(senders * blocks * block));
    }
    if (step.most > most) {
      most = step.most;
      time.tier = step.time.tier;
    }
    time.latency_seconds += latency;
    time.seconds += latency + step.time.seconds;
  }
  return time;
}

// The time of direct exchanges, in each round: each rank sends every other rank a block; no rank passes on another's
// blocks. Messages follow each other, and the last one takes a step of the outermost tier.
CollectiveTime direct_time(CollectiveKind collective, double bytes, const GroupPlace& place, const Machine& machine) {
  Sum sum;
  double messages = 0, last = 0;
  const double block = bytes / static_cast<double>(place.ranks);
  for (size_t number = 0; number < machine.tiers.size(); ++number) {
    const TierUse use(place, machine, number);
    const int64_t others = use.members() - use.members_inside();
    messages += static_cast<double>(others) * use.message_time();
    if (others > 0) last = use.latency() - use.message_time();
    if (!use.is_used()) continue;
    const int64_t partners = (use.is_network() ? place.ranks : use.members()) - use.members_inside();
    const auto blocks = static_cast<double>(use.members_inside() * partners);
    sum.transfer_meanwhile(number, use.direct_seconds(rounds(collective) * blocks * block, place.ranks));
  }
  sum.time.algorithm = Algorithm::direct;
  return sum.with_latency(rounds(collective) * (messages + last));
}

// Whether the description of the outermost tier that the group uses has a direct exchange.
bool exchanges_directly(const GroupPlace& place, const Machine& machine) {
  for (size_t number = machine.tiers.size(); number-- > 0;) {
    if (TierUse(place, machine, number).is_used()) return machine.tiers[number].exchange == machine::Exchange::direct;
  }
  return false;
}

CollectiveTime send_time(double bytes, const GroupPlace& place, const Machine& machine) {
  Sum sum;
  double latency = 0;
  for (size_t number = 0; number < machine.tiers.size(); ++number) {
    const TierUse use(place, machine, number);
    if (use.is_used()) sum.transfer_meanwhile(number, use.seconds(bytes));
    if (use.ring_edges() > 0) latency = use.latency();
  }
  return sum.with_latency(latency);
}

CollectiveTime both(const CollectiveTime& first, const CollectiveTime& second) {
  CollectiveTime sum = first.seconds >= second.seconds ? first : second;
  sum.seconds = first.seconds + second.seconds;
  sum.latency_seconds = first.latency_seconds + second.latency_seconds;
  sum.algorithm = Algorithm::two_hop;
  return sum;
}

// The members of the group in one unit of the tier.
GroupPlace inner_place(GroupPlace place, size_t tier) {
  place.ranks = place.members[tier];
  for (int64_t& members : place.members) members = std::min(members, place.ranks);
  return place;
}

// The members with the same place in their units of the tier.
GroupPlace outer_place(GroupPlace place, size_t tier) {
  const int64_t inner = place.members[tier];
  place.ranks = divided_up(place.ranks, inner);
  for (size_t i = 0; i < place.members.size(); ++i) {
    const int64_t together = place.members[i];
    place.members[i] = divided_up(together, inner);
    place.groups[i] *= together / place.members[i];
  }
  return place;
}

// The time of two hops with the tier whose units make them fastest.
CollectiveTime two_hop_time(CollectiveKind collective, double bytes, const GroupPlace& place, const Machine& machine,
                            std::vector<Algorithm> algorithms) {
  std::erase(algorithms, Algorithm::two_hop);
  CollectiveTime best{.seconds = -1};
  for (size_t tier = 0; tier < place.members.size(); ++tier) {
    const int64_t inner = place.members[tier];
    if (inner == 1 || inner == place.ranks) continue;
    const auto hop = [&](CollectiveKind one, double of, const GroupPlace& where) {
      return collective_time(one, of, where, machine, algorithms);
    };
    CollectiveTime sum = hop(collective, bytes / static_cast<double>(inner), outer_place(place, tier));
    const GroupPlace inside = inner_place(place, tier);
    if (collective != CollectiveKind::all_gather) sum = both(sum, hop(CollectiveKind::reduce_scatter, bytes, inside));
    if (collective != CollectiveKind::reduce_scatter) sum = both(sum, hop(CollectiveKind::all_gather, bytes, inside));
    if (best.seconds < 0 || sum.seconds < best.seconds) best = sum;
  }
  return best;
}

// Negative seconds where the algorithm does not fit.
CollectiveTime time_by(Algorithm algorithm, CollectiveKind collective, double bytes, const GroupPlace& place,
                       const Machine& machine, const std::vector<Algorithm>& algorithms) {
  switch (algorithm) {
    case Algorithm::ring:
      return exchanges_directly(place, machine) ? direct_time(collective, bytes, place, machine)
                                                : ring_time(collective, bytes, place, machine);
    case Algorithm::tree:
      if (collective == CollectiveKind::all_reduce && !exchanges_directly(place, machine)) {
        return tree_time(bytes, place, machine);
      }
      break;
    case Algorithm::recursive_doubling:
      return doubling_time(collective, bytes, place, machine);
    case Algorithm::bruck:
      if (collective == CollectiveKind::all_gather) return bruck_time(bytes, place, machine);
      break;
    case Algorithm::direct:
      return direct_time(collective, bytes, place, machine);
    case Algorithm::two_hop:
      return two_hop_time(collective, bytes, place, machine, algorithms);
  }
  return {.seconds = -1};
}

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring:
      return "ring";
    case Algorithm::tree:
      return "tree";
    case Algorithm::recursive_doubling:
      return "recursive doubling";
    case Algorithm::bruck:
      return "Bruck's doubling";
    case Algorithm::direct:
      return "direct exchange";
    case Algorithm::two_hop:
      return "two hops";
  }
  return "";
}

GroupPlace place_of(const mesh::Group& group, const Machine& machine, int64_t ranks) {
  const int64_t used = ranks > 0 ? ranks : machine.devices();
  GroupPlace place{.ranks = std::ssize(group.ranks), .members = {}, .groups = {}};
  std::vector<int64_t> sorted = group.ranks;
  std::ranges::sort(sorted);
  for (const Tier& tier : machine.tiers) {
    int64_t most = 1, unit = -1, members = 0;
    for (const int64_t rank : sorted) {
      members = rank / tier.devices == unit ? members + 1 : 1;
      unit = rank / tier.devices;
      most = std::max(most, members);
    }
    place.members.push_back(most);
    place.groups.push_back(divided_up(std::min(tier.devices, used), most));
  }
  return place;
}

double sent_bytes(CollectiveKind collective, double bytes, int64_t ranks) {
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (collective) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      return bytes * others;
    case CollectiveKind::all_reduce:
      return 2 * bytes * others;
    case CollectiveKind::send:
      return bytes;
  }
  return bytes;
}

CollectiveTime collective_time(CollectiveKind collective, double bytes, const GroupPlace& place, const Machine& machine,
                               const std::vector<Algorithm>& algorithms) {
  if (place.ranks == 1) return {};
  TERRACE_CHECK(!place.members.empty() && place.members.back() == place.ranks, "{} has no tier for {} ranks",
                machine.name, place.ranks);
  if (collective == CollectiveKind::send) return send_time(bytes, place, machine);
  if (collective == CollectiveKind::all_to_all) return direct_time(collective, bytes, place, machine);
  CollectiveTime best{.seconds = -1};
  for (const Algorithm algorithm : algorithms) {
    const CollectiveTime time = time_by(algorithm, collective, bytes, place, machine, algorithms);
    if (time.seconds >= 0 && (best.seconds < 0 || time.seconds < best.seconds)) best = time;
  }
  return best.seconds < 0 ? time_by(Algorithm::ring, collective, bytes, place, machine, algorithms) : best;
}

}  // namespace terrace::plan
