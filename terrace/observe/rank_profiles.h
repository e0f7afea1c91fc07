// One step as all ranks of a run measured it: what each rank's time and memory went to, and for whom it waited.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "terrace/observe/step_record.h"

namespace terrace::observe {

// A rank's calls in one group during the step.
struct GroupWait {
  std::string group;  // "shard_gradients"
  int64_t first = 0;  // the group's first rank, which tells it from others of the name
  int64_t members = 0;
  double waited_seconds = 0;
  double moving_seconds = 0;  // from the beginning of each call to its end
  double bytes = 0;           // that this rank sent

  bool operator==(const GroupWait&) const = default;
};

// A rank's waits for tensors of another stage.
struct StageWait {
  int64_t rank = 0;  // that sent them
  double seconds = 0;

  bool operator==(const StageWait&) const = default;
};

struct RankProfile {
  int64_t rank = 0, stage = 0;
  std::string place = {};  // its node, with its cores or its GPU
  double step_seconds = 0;
  std::vector<NamedFigure> seconds = {};       // of the step, by what they went to, as in StageRecord
  std::vector<NamedFigure> memory_bytes = {};  // by category; the sum is the most at a time
  std::vector<GroupWait> groups = {};
  std::vector<StageWait> stages = {};

  // Seconds of work, without waits and without what is not known.
  double computing() const;
  double waiting() const;
  bool operator==(const RankProfile&) const = default;
};

// A rank that waited for another one in a step, through a group or for a stage's tensors.
struct WaitForRank {
  int64_t waiting = 0, awaited = 0;
  std::string group;  // "stages" for tensors of a stage
  double seconds = 0;

  bool operator==(const WaitForRank&) const = default;
};

// A direction between two ranks with the time of a message.
struct MeasuredLink {
  int64_t from = -1, to = -1;  // -1: no links were measured
  double bytes = 0, seconds = 0;

  bool operator==(const MeasuredLink&) const = default;
};

struct ProfiledRanks {
  int64_t step = 0;
  std::vector<RankProfile> ranks = {};
  MeasuredLink slowest_link = {};
  double usual_link_seconds = 0;                // median over the slowest link of each rank
  std::vector<std::string> critical_path = {};  // "22% of the step is stage 3's weight gradient", longest first
  std::vector<std::string> next_run = {};       // settings with which the next run would be faster, as sentences

  bool operator==(const ProfiledRanks&) const = default;
};

// The longest waits, the longest first. In a collective the members wait for the one that comes last, which waits least
// itself: each waits for it as much longer as it waits itself.
std::vector<WaitForRank> longest_waits(const std::vector<RankProfile>& ranks, size_t most);

// The file in the run's folder.
inline constexpr std::string_view rank_profiles_file = "profile.json";
void write_rank_profiles(const ProfiledRanks& profiled, const std::filesystem::path& folder);
// No value where there is no such file. Throws UserError where it cannot be read.
std::optional<ProfiledRanks> read_rank_profiles(const std::filesystem::path& folder);

Json json_of(const ProfiledRanks& profiled);
// The text of one rank, and back; throws Json::exception.
std::string text_of(const RankProfile& rank);
RankProfile rank_profile_of(const std::string& text);

// Sentences for people: busy shares, the slowest rank and link, who waits for whom, the critical path, what the next
// run could change, and the rank with most memory.
std::vector<std::string> sentences_of(const ProfiledRanks& profiled);

}  // namespace terrace::observe
