// Finds who waits for whom, and writes profiles as JSON and as sentences.
#include "terrace/observe/rank_profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/lower_median.h"
#include "terrace/base/text/json_record.h"
#include "terrace/base/text/units.h"

namespace terrace::observe {
namespace {

constexpr size_t most_waits_told = 3, most_path_told = 4;

bool is_wait(const std::string& name) { return name.starts_with("waits"); }
// The rest of a step's time, such as that of making batches.
bool is_known(const std::string& name) { return name != "other"; }

std::string percent_text(double share) { return fmt::format("{:.0f}%", 100 * share); }

}  // namespace

void members_of(auto& json, MaybeConst<NamedFigure> auto& one) { json("name", one.name)("value", one.value); }

void members_of(auto& json, MaybeConst<GroupWait> auto& one) {
  json("group", one.group)("first", one.first)("members", one.members)("waited_seconds", one.waited_seconds);
  json("moving_seconds", one.moving_seconds)("bytes", one.bytes);
}

void members_of(auto& json, MaybeConst<StageWait> auto& one) { json("rank", one.rank)("seconds", one.seconds); }

void members_of(auto& json, MaybeConst<RankProfile> auto& one) {
  json("rank", one.rank)("stage", one.stage)("place", one.place)("step_seconds", one.step_seconds);
  json("seconds", one.seconds)("memory_bytes", one.memory_bytes)("groups", one.groups)("stages", one.stages);
}

void members_of(auto& json, MaybeConst<MeasuredLink> auto& one) {
  json("from", one.from)("to", one.to)("bytes", one.bytes)("seconds", one.seconds);
}

void members_of(auto& json, MaybeConst<ProfiledRanks> auto& one) {
  json("step", one.step)("ranks", one.ranks)("slowest_link", one.slowest_link);
  json("usual_link_seconds", one.usual_link_seconds)("critical_path", one.critical_path)("next_run", one.next_run);
}

double RankProfile::computing() const {
  double sum = 0;
  for (const NamedFigure& one : seconds) sum += is_wait(one.name) || !is_known(one.name) ? 0 : one.value;
  return sum;
}

double RankProfile::waiting() const {
  double sum = 0;
  for (const NamedFigure& one : seconds) sum += is_wait(one.name) ? one.value : 0;
  return sum;
}

std::vector<WaitForRank> longest_waits(const std::vector<RankProfile>& ranks, size_t most) {
  std::vector<WaitForRank> waits;
  std::map<std::pair<std::string, int64_t>, std::vector<std::pair<double, int64_t>>> groups;  // waits and ranks
  for (const RankProfile& rank : ranks) {
    for (const GroupWait& one : rank.groups) {
      groups[{one.group, one.first}].emplace_back(one.waited_seconds, rank.rank);
    }
    for (const StageWait& one : rank.stages) {
      waits.push_back({.waiting = rank.rank, .awaited = one.rank, .group = "stages", .seconds = one.seconds});
    }
  }
  for (const auto& [key, members] : groups) {
    const auto& [least, last] = *std::ranges::min_element(members);
    for (const auto& [seconds, rank] : members) {
      if (rank == last || seconds <= least) continue;
      waits.push_back({.waiting = rank, .awaited = last, .group = key.first, .seconds = seconds - least});
    }
  }
  std::ranges::stable_sort(waits, std::ranges::greater(), &WaitForRank::seconds);
  if (waits.size() > most) waits.resize(most);
  return waits;
}

Json json_of(const ProfiledRanks& profiled) { return json_of_record(profiled); }

std::string text_of(const RankProfile& rank) { return json_of_record(rank).dump(); }

RankProfile rank_profile_of(const std::string& text) { return record_of<RankProfile>(Json::parse(text)); }

void write_rank_profiles(const ProfiledRanks& profiled, const std::filesystem::path& folder) {
  write_text_atomically(folder / rank_profiles_file,
                        json_of(profiled).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<ProfiledRanks> read_rank_profiles(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / rank_profiles_file;
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    return record_of<ProfiledRanks>(parse_json(read_text(path)));
  } catch (const Json::exception& error) {
    throw UserError::of("{} is not the profile of a run's ranks: {}; profile again, or remove the file", path.string(),
                        error.what());
  }
}

std::vector<std::string> sentences_of(const ProfiledRanks& profiled) {
  const std::vector<RankProfile>& ranks = profiled.ranks;
  std::vector<std::string> sentences;
  if (ranks.empty()) return sentences;
  const auto share = [](const RankProfile& rank) {
    return rank.step_seconds > 0 ? rank.computing() / rank.step_seconds : 0;
  };
  const auto [idlest, busiest] = std::ranges::minmax_element(ranks, {}, share);
  double busy = 0;
  for (const RankProfile& rank : ranks) busy += share(rank) / static_cast<double>(ranks.size());
  sentences.push_back(fmt::format("ranks compute for {} of the step on average: rank {} for {}, rank {} for {}",
                                  percent_text(busy), idlest->rank, percent_text(share(*idlest)), busiest->rank,
                                  percent_text(share(*busiest))));
  const auto slowest = std::ranges::max_element(ranks, {}, &RankProfile::computing);
  std::vector<double> of_stage;
  for (const RankProfile& rank : ranks) {
    if (rank.stage == slowest->stage) of_stage.push_back(rank.computing());
  }
  const double usual = lower_median(of_stage);
  sentences.push_back(fmt::format(
      "slowest rank: {}{} computes for {}{}", slowest->rank, slowest->place.empty() ? "" : " (" + slowest->place + ")",
      format_seconds(slowest->computing()),
      of_stage.size() > 1 && usual > 0 ? fmt::format(", {:+.0f}% of the median of stage {}",
                                                     100 * (slowest->computing() / usual - 1), slowest->stage)
                                       : ""));
  for (const WaitForRank& wait : longest_waits(ranks, most_waits_told)) {
    if (wait.seconds <= 0) continue;
    sentences.push_back(fmt::format("rank {} waits {} for rank {} ({})", wait.waiting, format_seconds(wait.seconds),
                                    wait.awaited, wait.group));
  }
  if (const MeasuredLink& link = profiled.slowest_link; link.from >= 0) {
    sentences.push_back(fmt::format("slowest link: from rank {} to rank {}, {} for {}; the median of the ranks is {}",
                                    link.from, link.to, format_seconds(link.seconds), format_bytes(link.bytes),
                                    format_seconds(profiled.usual_link_seconds)));
  }
  for (size_t i = 0; i < std::min(most_path_told, profiled.critical_path.size()); ++i) {
    sentences.push_back(profiled.critical_path[i]);
  }
  for (const std::string& next : profiled.next_run) sentences.push_back(next);
  const auto largest =
      std::ranges::max_element(ranks, {}, [](const RankProfile& one) { return sum(one.memory_bytes); });
  sentences.push_back(
      fmt::format("most memory: rank {} with {}", largest->rank, format_bytes(sum(largest->memory_bytes))));
  return sentences;
}

}  // namespace terrace::observe
