// Sends messages around the members of each group, at several distances.
#include "terrace/run/link_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "terrace/base/lower_median.h"
#include "terrace/base/text/units.h"

namespace terrace::run {
namespace {

constexpr int repeats = 5;
constexpr int64_t most_members_in_pairs = 9;
// A link's share above its usual time.
constexpr double least_excess = 0.5;
// A link that is named loses at least this share of what the slowest one loses.
constexpr double least_of_slowest = 0.1;
constexpr size_t most_named = 3;

// How far a member's messages go in a group.
std::vector<int64_t> distances(int64_t members) {
  std::vector<int64_t> all;
  for (int64_t distance = 1; distance < members;
       distance = members <= most_members_in_pairs ? distance + 1 : 2 * distance)
    all.push_back(distance);
  return all;
}

}  // namespace

LinkProbe::LinkProbe(std::vector<comm::Comm*> groups, comm::Comm& all, double least_seconds,
                     const train::RunClock* clock)
    : groups_(std::move(groups)), all_(all), least_seconds_(least_seconds), clock_(clock) {
  std::erase_if(groups_, [](const comm::Comm* group) { return group->size() < 2; });
}

std::vector<LinkProbe::Link> LinkProbe::measure() {
  std::vector<char> sent(probe_bytes), received(probe_bytes);
  std::vector<Link> links;
  all_.barrier({.what = "measure links"}).wait();
  for (comm::Comm* group : groups_) {
    const int64_t members = group->size(), own = group->member();
    for (const int64_t distance : distances(members)) {
      const int64_t to = (own + distance) % members, from = (own - distance + members) % members;
      double shortest = std::numeric_limits<double>::infinity();
      for (int i = 0; i < repeats; ++i) {
        comm::Work receive =
            group->receive(received.data(), probe_bytes, comm::Type::uint8, from, {.what = "measure links"});
        group->barrier({.what = "measure links"}).wait();
        const double began = train::seconds_on(clock_);
        comm::Work send = group->send(sent.data(), probe_bytes, comm::Type::uint8, to, {.what = "measure links"});
        receive.wait();
        shortest = std::min(shortest, train::seconds_on(clock_) - began);
        send.wait();
      }
      links.push_back({.from = group->group().ranks[static_cast<size_t>(from)], .seconds = shortest});
    }
  }
  return links;
}

void LinkProbe::measure_usual() { usual_ = measure(); }

std::vector<LinkProbe::WorstLink> LinkProbe::gathered(const WorstLink& own) {
  std::vector<WorstLink> worst(static_cast<size_t>(all_.size()));
  all_.all_gather(&own, worst.data(), sizeof(WorstLink) / sizeof(double), comm::Type::fp64, {.what = "measure links"})
      .wait();
  return worst;
}

ProbedLinks LinkProbe::measure_all() {
  const std::vector<Link> links = measure();
  const auto own = std::ranges::max_element(links, {}, &Link::seconds);
  std::vector<double> seconds;
  ProbedLinks found;
  const std::vector<WorstLink> worst = gathered(
      own == links.end() ? WorstLink{} : WorstLink{.from = static_cast<double>(own->from), .seconds = own->seconds});
  for (size_t rank = 0; rank < worst.size(); ++rank) {
    if (worst[rank].from < 0) continue;
    seconds.push_back(worst[rank].seconds);
    if (found.slowest && worst[rank].seconds <= found.slowest->seconds) continue;
    found.slowest = SlowLink{.from = static_cast<int64_t>(worst[rank].from),
                             .to = static_cast<int64_t>(rank),
                             .seconds = worst[rank].seconds};
  }
  if (!seconds.empty()) found.usual_seconds = lower_median(std::move(seconds));
  return found;
}

std::vector<SlowLink> LinkProbe::find_slow() {
  const std::vector<Link> now = measure();
  WorstLink own;
  for (size_t i = 0; i < now.size(); ++i) {
    const double ratio = now[i].seconds / usual_[i].seconds;
    if (ratio <= own.ratio) continue;
    own = {.from = static_cast<double>(now[i].from),
           .seconds = now[i].seconds,
           .usual_seconds = usual_[i].seconds,
           .ratio = ratio};
  }
  const std::vector<WorstLink> worst = gathered(own);
  std::vector<double> ratios;
  for (const WorstLink& one : worst) {
    if (one.from >= 0) ratios.push_back(one.ratio);
  }
  if (ratios.empty()) return {};
  // Both of two ranks may have seen the slow link.
  const double usual_ratio = ratios.size() > 2 ? std::max(1.0, lower_median(ratios)) : 1.0;
  std::vector<SlowLink> slow;
  for (size_t rank = 0; rank < worst.size(); ++rank) {
    const WorstLink& one = worst[rank];
    if (one.from < 0 || one.ratio < (1 + least_excess) * usual_ratio) continue;
    if (one.seconds - one.usual_seconds < least_seconds_) continue;
    slow.push_back({.from = static_cast<int64_t>(one.from),
                    .to = static_cast<int64_t>(rank),
                    .seconds = one.seconds,
                    .usual_seconds = one.usual_seconds});
  }
  const auto longer_by = [](const SlowLink& link) { return link.seconds - link.usual_seconds; };
  std::ranges::stable_sort(slow, std::ranges::greater(), longer_by);
  // Beside a slow link, what is a little longer is noise.
  std::erase_if(slow, [most = slow.empty() ? 0 : longer_by(slow.front()), &longer_by](const SlowLink& link) {
    return longer_by(link) < least_of_slowest * most;
  });
  return slow;
}

std::string text_of(const std::vector<SlowLink>& links) {
  std::string text;
  for (size_t i = 0; i < std::min(most_named, links.size()); ++i) {
    const SlowLink& link = links[i];
    text += fmt::format("{}rank {} to rank {} take {} for {} in place of {}", i == 0 ? "messages from " : ", from ",
                        link.from, link.to, format_seconds(link.seconds),
                        format_bytes(static_cast<double>(probe_bytes)), format_seconds(link.usual_seconds));
  }
  if (links.size() > most_named) text += fmt::format(", and {} more", links.size() - most_named);
  if (links.size() < 2) return text;
  for (const int64_t rank : {links.front().from, links.front().to}) {
    const auto has = [&](const SlowLink& link) { return link.from == rank || link.to == rank; };
    if (std::ranges::all_of(links, has)) return text + fmt::format("; rank {} is an end of all of them", rank);
  }
  return text;
}

}  // namespace terrace::run
