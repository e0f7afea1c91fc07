// Finds the ranks that compute more slowly than they should from the times of all ranks, and whether steps take longer
// although no rank computes more slowly. Pure arithmetic: every rank that is given the same times finds the same.
//
// Ranks of one pipeline stage do the same work, so a rank is compared with the median of its stage in the same steps,
// and the median of a stage with its own past. A time counts as longer where it exceeds the expected one by 12% and
// by five standard deviations of its noise, in two windows in succession. Noise is estimated from how much a ratio
// changes from one window to the next, by a median, so that neither the slow rank nor a rank that always is slower
// widens it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace terrace::observe {

// The parts of a rank's own time in a step, without waits for other ranks. Data: the wait for its own batches.
enum class WorkKind { data, forward, backward, update, other };
inline constexpr size_t num_work_kinds = 5;
const char* to_string(WorkKind kind);

using WorkSeconds = std::array<double, num_work_kinds>;

// The steps of a window, after each of which the ranks are judged. In two whole windows and a part of one a rank is
// found: at the latest in the eighth step after it has become slow.
inline constexpr int64_t watch_window = 3;

// The times of one rank: medians over the steps of a window, all for one unit of work, such as a micro-batch.
struct RankTimes {
  double seconds = 0;       // computing, all kinds together
  WorkSeconds kinds = {};   // the same by kind
  double step_seconds = 0;  // of the whole step, waits included
  double core_wait = 0;     // the share of the time for which the rank's thread waited for a core
};

struct SlowRank {
  int64_t rank = 0;
  double excess = 0;                  // 0.24: computing takes 1.24 times as long as it should
  double seconds = 0;                 // of its computing
  double usual_seconds = 0;           // of the ranks with the same work, or of the stage before
  bool against_past = false;          // all ranks of the stage take longer than before; `rank` is the first of them
  WorkKind kind = WorkKind::forward;  // where it loses most
  double kind_excess = 0;             // of that kind
  double core_wait = 0;

  bool operator==(const SlowRank&) const = default;
};

// The findings after a window.
struct WatchFindings {
  std::vector<SlowRank> begun;  // slow from now on
  std::vector<int64_t> ended;   // no longer slow
  std::vector<SlowRank> slow;   // all that are slow now, those that have begun included
  SlowRank slowest;             // the rank with the largest excess over its stage, slow or not; rank -1: none
  // Steps have begun to take longer, although no rank computes more slowly; they no longer do.
  bool longer_steps_begun = false, longer_steps_ended = false;
  double step_excess = 0;  // by how much steps take longer than before, as a share
};

class SlowRankJudge {
 public:
  // The stage of each rank.
  explicit SlowRankJudge(std::vector<int64_t> stages);

  // Called after each window with the times of all ranks.
  WatchFindings judge(const std::vector<RankTimes>& ranks);
  // Called where the work of a step changes: times are not compared with earlier ones.
  void forget_past();

 private:
  // A ratio that is 1 when all is well, from window to window.
  struct Series {
    double last = 0;       // 0: none yet
    int64_t exceeded = 0;  // windows in succession
    bool slow = false;

    // Whether the state has changed.
    bool add(double ratio, double threshold);
  };
  // How much ratios change from window to window; the median of the last windows' medians.
  class Noise {
   public:
    void add(std::vector<double> changes);
    double threshold() const;  // of the excess; infinite until the noise is known
   private:
    std::deque<double> medians_;
  };
  // Values of the past windows in which nothing was slow.
  struct Past {
    std::deque<double> values;
    Series series;
    Noise noise;

    bool known() const;
    double usual() const;
    // Judges the value against the past, and keeps it there unless it is slow. Returns whether the state has changed.
    bool add(double value);
  };

  void judge_ranks(const std::vector<RankTimes>& ranks, WatchFindings& findings);
  void judge_stages(const std::vector<RankTimes>& ranks, WatchFindings& findings);
  void judge_steps(const std::vector<RankTimes>& ranks, WatchFindings& findings);
  // The largest excess of a rank or stage that computes too long, now or in two windows in succession.
  double explained_excess() const;

  std::vector<int64_t> stages_;
  std::vector<std::vector<int64_t>> ranks_of_stage_;
  std::vector<Series> series_;    // by rank, against its stage
  std::vector<Noise> noise_;      // by stage
  std::vector<Past> past_;        // by stage
  std::vector<RankTimes> usual_;  // by stage: the last windows' medians before it became slow
  Past steps_;
  bool longer_steps_told_ = false;
};

// "computes 24% slower than the other 7 ranks of stage 1: 61.2 ms in place of 49.3 ms for a micro-batch, most of it in
// backward (+38%); its thread waited 20% of the time for a core". `place` says where the rank runs.
std::string text_of(const SlowRank& slow, const std::string& place, int64_t stage, int64_t ranks_of_stage,
                    const std::string& unit);

}  // namespace terrace::observe
