// Judges by medians over ranks and windows.
#include "terrace/observe/slow_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/lower_median.h"
#include "terrace/base/text/units.h"

namespace terrace::observe {
namespace {

constexpr double least_excess = 0.12;
// Twice as long as expected is too long whatever the noise.
constexpr double most_threshold = 1;
// Standard deviations of the noise.
constexpr double least_deviations = 5;
// A slow rank is no longer slow below this share of the threshold.
constexpr double ended_below = 0.5;
constexpr int64_t windows_in_succession = 2;
// Shorter differences are not worth a look at the machine.
constexpr double least_seconds = 3e-4;
constexpr size_t kept_windows = 32, noise_windows = 8, windows_of_noise = 2, windows_of_past = 3;

double median_of(const std::vector<RankTimes>& ranks, const std::vector<int64_t>& of, double RankTimes::*field) {
  std::vector<double> values;
  for (const int64_t rank : of) values.push_back(ranks[static_cast<size_t>(rank)].*field);
  return lower_median(std::move(values));
}

// Medians of the ranks' times, field by field.
RankTimes medians_of(const std::vector<RankTimes>& ranks, const std::vector<int64_t>& of) {
  RankTimes medians{.seconds = median_of(ranks, of, &RankTimes::seconds)};
  for (size_t kind = 0; kind < num_work_kinds; ++kind) {
    std::vector<double> values;
    for (const int64_t rank : of) values.push_back(ranks[static_cast<size_t>(rank)].kinds[kind]);
    medians.kinds[kind] = lower_median(std::move(values));
  }
  return medians;
}

SlowRank slow_rank_of(int64_t rank, const RankTimes& own, const RankTimes& usual) {
  SlowRank slow{.rank = rank,
                .excess = own.seconds / usual.seconds - 1,
                .seconds = own.seconds,
                .usual_seconds = usual.seconds,
                .core_wait = own.core_wait};
  double most = 0;
  for (size_t kind = 0; kind < num_work_kinds; ++kind) {
    const double lost = own.kinds[kind] - usual.kinds[kind];
    if (lost <= most) continue;
    most = lost;
    slow.kind = static_cast<WorkKind>(kind);
    slow.kind_excess = usual.kinds[kind] > 0 ? lost / usual.kinds[kind] : 0;
  }
  return slow;
}

}  // namespace

const char* to_string(WorkKind kind) {
  switch (kind) {
    case WorkKind::data:
      return "waits for its data";
    case WorkKind::forward:
      return "forward";
    case WorkKind::backward:
      return "backward";
    case WorkKind::update:
      return "update";
    case WorkKind::other:
      return "other work";
  }
  return "";
}

bool SlowRankJudge::Series::add(double ratio, double threshold) {
  last = ratio;
  const double limit = slow ? ended_below * threshold : threshold;
  const bool exceeds = ratio - 1 > limit;
  exceeded = exceeds == slow ? 0 : exceeded + 1;  // windows that speak for the other state
  if (exceeded < windows_in_succession) return false;
  slow = !slow;
  exceeded = 0;
  return true;
}

void SlowRankJudge::Noise::add(std::vector<double> changes) {
  if (changes.empty()) return;
  for (double& change : changes) change = std::abs(change);
  medians_.push_back(lower_median(std::move(changes)));
  if (medians_.size() > noise_windows) medians_.pop_front();
}

double SlowRankJudge::Noise::threshold() const {
  if (medians_.size() < windows_of_noise) return std::numeric_limits<double>::infinity();
  // A difference of two windows has sqrt(2) times the deviation of one; 1.4826 makes a median a normal deviation.
  const double deviation = 1.4826 / std::sqrt(2.0) * lower_median({medians_.begin(), medians_.end()});
  return std::clamp(least_deviations * deviation, least_excess, most_threshold);
}

bool SlowRankJudge::Past::known() const { return values.size() >= windows_of_past; }

double SlowRankJudge::Past::usual() const { return lower_median({values.begin(), values.end()}); }

bool SlowRankJudge::Past::add(double value) {
  bool changed = false;
  if (known() && usual() > 0) {
    const double ratio = value / usual();
    const double before = std::exchange(series.last, ratio);
    changed = series.add(ratio, noise.threshold());
    if (before > 0) noise.add({ratio - before});
  }
  if (series.slow || series.exceeded > 0) return changed;
  values.push_back(value);
  if (values.size() > kept_windows) values.pop_front();
  return changed;
}

SlowRankJudge::SlowRankJudge(std::vector<int64_t> stages) : stages_(std::move(stages)), series_(stages_.size()) {
  for (size_t rank = 0; rank < stages_.size(); ++rank) {
    const auto stage = static_cast<size_t>(stages_[rank]);
    if (ranks_of_stage_.size() <= stage) ranks_of_stage_.resize(stage + 1);
    ranks_of_stage_[stage].push_back(static_cast<int64_t>(rank));
  }
  noise_.resize(ranks_of_stage_.size());
  past_.resize(ranks_of_stage_.size());
  usual_.resize(ranks_of_stage_.size());
}

void SlowRankJudge::judge_ranks(const std::vector<RankTimes>& ranks, WatchFindings& findings) {
  findings.slowest = {.rank = -1};
  for (size_t stage = 0; stage < ranks_of_stage_.size(); ++stage) {
    const std::vector<int64_t>& members = ranks_of_stage_[stage];
    if (members.size() < 2) continue;
    const RankTimes usual = medians_of(ranks, members);
    if (usual.seconds <= 0) continue;
    const double threshold = std::max(noise_[stage].threshold(), least_seconds / usual.seconds);
    std::vector<double> changes;
    for (const int64_t rank : members) {
      const RankTimes& own = ranks[static_cast<size_t>(rank)];
      Series& series = series_[static_cast<size_t>(rank)];
      const double ratio = own.seconds / usual.seconds;
      if (series.last > 0) changes.push_back(ratio - series.last);
      const bool changed = series.add(ratio, threshold);
      const SlowRank slow = slow_rank_of(rank, own, usual);
      if (series.slow) findings.slow.push_back(slow);
      if (changed && series.slow) findings.begun.push_back(slow);
      if (changed && !series.slow) findings.ended.push_back(rank);
      if (findings.slowest.rank < 0 || slow.excess > findings.slowest.excess) findings.slowest = slow;
    }
    noise_[stage].add(std::move(changes));
  }
}

void SlowRankJudge::judge_stages(const std::vector<RankTimes>& ranks, WatchFindings& findings) {
  for (size_t stage = 0; stage < ranks_of_stage_.size(); ++stage) {
    const std::vector<int64_t>& members = ranks_of_stage_[stage];
    if (members.empty()) continue;
    const RankTimes now = medians_of(ranks, members);
    Past& past = past_[stage];
    const bool changed = past.add(now.seconds);
    if (!past.series.slow && past.series.exceeded == 0) usual_[stage] = now;
    const int64_t first = members.front();  // stands for all of them
    if (changed && !past.series.slow) findings.ended.push_back(first);
    if (!past.series.slow) continue;
    SlowRank slow = slow_rank_of(first, now, usual_[stage]);
    slow.core_wait = median_of(ranks, members, &RankTimes::core_wait);
    slow.against_past = true;
    findings.slow.push_back(slow);
    if (changed) findings.begun.push_back(slow);
  }
}

double SlowRankJudge::explained_excess() const {
  double most = 0;
  const auto take = [&](const Series& one) {
    if (one.slow || one.exceeded > 0) most = std::max(most, one.last - 1);
  };
  for (const Series& one : series_) take(one);
  for (const Past& one : past_) take(one.series);
  return most;
}

void SlowRankJudge::judge_steps(const std::vector<RankTimes>& ranks, WatchFindings& findings) {
  std::vector<double> seconds;
  for (const RankTimes& one : ranks) seconds.push_back(one.step_seconds);
  steps_.add(lower_median(std::move(seconds)));
  findings.step_excess = steps_.series.last > 0 ? steps_.series.last - 1 : 0;
  const bool longer = steps_.series.slow;
  // A slow rank explains steps that are at most twice as much longer as its computing.
  findings.longer_steps_begun = longer && !longer_steps_told_ && findings.step_excess > 2 * explained_excess();
  findings.longer_steps_ended = !longer && longer_steps_told_;
  longer_steps_told_ = longer && (longer_steps_told_ || findings.longer_steps_begun);
}

void SlowRankJudge::forget_past() {
  past_.assign(past_.size(), {});
  steps_ = {};
  longer_steps_told_ = false;
}

WatchFindings SlowRankJudge::judge(const std::vector<RankTimes>& ranks) {
  TERRACE_CHECK(ranks.size() == stages_.size(), "times of {} ranks of {}", ranks.size(), stages_.size());
  WatchFindings findings;
  judge_ranks(ranks, findings);
  judge_stages(ranks, findings);
  judge_steps(ranks, findings);
  return findings;
}

std::string text_of(const SlowRank& slow, const std::string& place, int64_t stage, int64_t ranks_of_stage,
                    const std::string& unit) {
  const auto percent = [](double share) { return std::lround(100 * share); };
  const std::string than = slow.against_past     ? std::string("than before")
                           : ranks_of_stage == 2 ? fmt::format("than the other rank of stage {}", stage)
                                                 : fmt::format("than the other {} ranks of stage {} (their median)",
                                                               ranks_of_stage - 1, stage);
  const std::string who = slow.against_past && ranks_of_stage > 1
                              ? fmt::format("the {} ranks of stage {} compute", ranks_of_stage, stage)
                              : fmt::format("rank {}{} computes", slow.rank, place.empty() ? "" : " (" + place + ")");
  std::string text = fmt::format("{} {}% slower {}: {} in place of {} for {}", who, percent(slow.excess), than,
                                 format_seconds(slow.seconds), format_seconds(slow.usual_seconds), unit);
  if (slow.kind_excess > 0) {
    text += fmt::format(", most of it in {} (+{}%)", to_string(slow.kind), percent(slow.kind_excess));
  }
  if (slow.core_wait >= 0.05) {
    text += fmt::format("; its thread waited {}% of the time for a core, on which other work runs",
                        percent(slow.core_wait));
  }
  return text;
}

}  // namespace terrace::observe
