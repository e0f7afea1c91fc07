// Names ranks that compute slowly and links that are slow while a run trains.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "terrace/base/system/cores.h"
#include "terrace/base/terminal/log.h"
#include "terrace/config/family.h"
#include "terrace/observe/slow_ranks.h"
#include "terrace/observe/slowness_file.h"
#include "terrace/run/hooks/hooks.h"
#include "terrace/run/link_probe.h"
#include "terrace/run/rank_place.h"
#include "terrace/train/step_times.h"

namespace terrace::run {
namespace {

using observe::RankTimes;
using observe::SlowRank;
using observe::watch_window;

constexpr size_t numbers_of_rank = 4 + observe::num_work_kinds;
// From a message to the moment when a rank that shares its core has woken.
constexpr double longest_wake_seconds = 500e-6;
// Ranks that are named in the log one by one; of more the rest is counted.
constexpr size_t most_ranks_named = 4;

double median(std::array<double, watch_window> values) {
  std::ranges::sort(values);
  return values[watch_window / 2];
}

// Tells all ranks what they do together after the first one has judged their times.
struct Verdict {
  int64_t num_begun = 0;                                   // ranks that have become slow
  std::array<int64_t, most_ranks_named> begun = {};        // the first of them
  int64_t longer_steps_begun = 0, longer_steps_ended = 0;  // as in observe::WatchFindings
};

class WatchHook : public train::Hook {
 public:
  void at_start(train::Trainer& trainer) override {
    const mesh::Mesh& mesh = trainer.mesh();
    if (trainer.rank() == 0) {
      std::vector<int64_t> stages;
      for (int64_t rank = 0; rank < mesh.size(); ++rank) stages.push_back(mesh.coordinate(rank, "pipeline"));
      judge_.emplace(std::move(stages));
    }
    const int64_t threads = at::get_num_threads();
    shares_cores_ = trainer.device().is_cpu() && trainer.clock() == nullptr &&
                    mesh.topology().ranks_per_node * threads > usable_cores();
    times_.emplace(trainer.device(), trainer.cut().groups_of_step(), shares_cores_, trainer.clock());
    trainer.time_steps(&*times_);
    if (trainer.device().is_cpu()) {
      probe_.emplace(groups_with_data(trainer.cut()), *trainer.cut().groups.control,
                     shares_cores_ ? longest_wake_seconds : 0, trainer.clock());
    }
  }

  void after_step(train::Trainer& trainer, const train::StepReport& report) override {
    if (report.skipped) return;
    if (gathering_) judge(trainer, report.metrics.step);
    if (++steps_ <= profile_warm_up) return;
    add(trainer, report);
    if ((steps_ - profile_warm_up) % watch_window == 0) begin_gather(trainer);
  }

  void at_end(train::Trainer& trainer) override {
    if (gathering_) gathering_->wait();
    gathering_.reset();
    trainer.time_steps(nullptr);
    times_.reset();
  }

 private:
  void add(train::Trainer& trainer, const train::StepReport& report) {
    const auto i = static_cast<size_t>((steps_ - profile_warm_up - 1) % watch_window);
    work_ = std::max(trainer.own_work(), 1.0);
    observe::WorkSeconds seconds = times_->seconds();
    totals_[i] = 0;
    for (size_t kind = 0; kind < observe::num_work_kinds; ++kind) {
      kinds_[kind][i] = seconds[kind] / work_;
      totals_[i] += seconds[kind] / work_;
    }
    steps_seconds_[i] = report.metrics.step_seconds / work_;
  }

  void begin_gather(train::Trainer& trainer) {
    comm::Comm& all = *trainer.cut().groups.control;
    numbers_ = std::make_shared<std::vector<float>>(static_cast<size_t>(all.size()) * numbers_of_rank);
    float* const block = numbers_->data() + static_cast<size_t>(all.member()) * numbers_of_rank;
    float* own = block;
    *own++ = static_cast<float>(median(totals_));
    *own++ = static_cast<float>(median(steps_seconds_));
    *own++ = shares_cores_ || trainer.clock() != nullptr ? 0 : static_cast<float>(times_->take_core_wait_share());
    *own++ = static_cast<float>(work_);
    for (const auto& kind : kinds_) *own++ = static_cast<float>(median(kind));
    gathering_.emplace(all.all_gather(block, numbers_->data(), numbers_of_rank, comm::Type::fp32,
                                      {.what = "times of ranks"}, numbers_));
  }

  std::vector<RankTimes> gathered() {
    gathering_->wait();
    gathering_.reset();
    std::vector<RankTimes> ranks;
    works_.clear();
    for (size_t i = 0; i < numbers_->size(); i += numbers_of_rank) {
      const float* own = numbers_->data() + i;
      RankTimes& rank = ranks.emplace_back(RankTimes{.seconds = own[0], .step_seconds = own[1], .core_wait = own[2]});
      works_.push_back(own[3]);
      for (size_t kind = 0; kind < observe::num_work_kinds; ++kind) rank.kinds[kind] = own[4 + kind];
    }
    return ranks;
  }

  // The first rank judges, since the times of all ranks of all steps take memory; the others do what it says.
  void judge(train::Trainer& trainer, int64_t step) {
    if (trainer.rank() == 0) {
      const std::vector<RankTimes> ranks = gathered();
      const bool samples_differ = !trainer.config().family->settings.sizes.empty();
      if (!samples_differ && std::exchange(work_of_first_, works_.front()) != works_.front()) judge_->forget_past();
      findings_ = judge_->judge(ranks);
    } else {
      gathering_->wait();
      gathering_.reset();
    }
    numbers_.reset();
    const Verdict verdict = agree(trainer);
    if (probe_ && !std::exchange(measured_usual_, true)) probe_->measure_usual();
    name_ranks(trainer, step, verdict);
    if (verdict.longer_steps_begun != 0) name_links(trainer, step, findings_.step_excess);
    if (verdict.longer_steps_ended != 0) end_links(trainer, step);
    if (findings_.slowest.rank < 0) return;
    trainer.set_watch({.slowest_rank = findings_.slowest.rank,
                       .slowest_excess = findings_.slowest.excess,
                       .slow_ranks = static_cast<int64_t>(findings_.slow.size()),
                       .slow_links = static_cast<int64_t>(links_.size())});
  }

  Verdict agree(train::Trainer& trainer) const {
    Verdict verdict{.num_begun = std::ssize(findings_.begun),
                    .longer_steps_begun = findings_.longer_steps_begun ? 1 : 0,
                    .longer_steps_ended = findings_.longer_steps_ended ? 1 : 0};
    for (size_t i = 0; i < std::min(findings_.begun.size(), most_ranks_named); ++i) {
      verdict.begun[i] = findings_.begun[i].rank;
    }
    trainer.cut()
        .groups.control
        ->broadcast(&verdict, sizeof(Verdict) / sizeof(int64_t), comm::Type::int64, 0, {.what = "slow ranks"})
        .wait();
    return verdict;
  }

  void name_ranks(train::Trainer& trainer, int64_t step, const Verdict& verdict) {
    for (int64_t i = 0; i < verdict.num_begun && i < std::ssize(verdict.begun); ++i) {
      const int64_t rank = verdict.begun[static_cast<size_t>(i)];
      const std::string place =
          trainer.of_rank(rank, rank == trainer.rank() ? place_of(trainer.device()) : "", "slow rank");
      if (trainer.rank() != 0) continue;
      SlowRank slow = findings_.begun[static_cast<size_t>(i)];
      const double work = works_[static_cast<size_t>(rank)];
      slow.seconds *= work;
      slow.usual_seconds *= work;
      const int64_t stage = trainer.mesh().coordinate(rank, "pipeline");
      const int64_t of_stage = trainer.mesh().size() / trainer.mesh().size("pipeline");
      tell(trainer, {.step = step,
                     .what = "rank",
                     .rank = rank,
                     .place = place,
                     .excess = slow.excess,
                     .text = observe::text_of(slow, place, stage, of_stage, "a step's work")});
    }
    if (trainer.rank() != 0) return;
    if (findings_.begun.size() > most_ranks_named) {
      tell(trainer,
           {.step = step,
            .what = "rank",
            .rank = findings_.begun[most_ranks_named].rank,
            .text = fmt::format("and {} more ranks compute more slowly", findings_.begun.size() - most_ranks_named)});
    }
    for (const int64_t rank : findings_.ended) {
      tell(trainer, {.step = step,
                     .what = "rank",
                     .ended = true,
                     .rank = rank,
                     .text = fmt::format("rank {} is no longer slow", rank)});
    }
  }

  void name_links(train::Trainer& trainer, int64_t step, double excess) {
    const std::string longer =
        fmt::format("steps take {:.0f}% longer than before, more than what ranks compute explains", 100 * excess);
    if (!probe_) {
      return tell(trainer, {.step = step, .what = "steps", .excess = excess, .text = longer});
    }
    links_ = probe_->find_slow();
    if (links_.empty()) {
      return tell(trainer, {.step = step,
                            .what = "steps",
                            .excess = excess,
                            .text = longer + " and no link between ranks is slower than when the run began"});
    }
    const SlowLink& worst = links_.front();
    tell(trainer, {.step = step,
                   .what = "link",
                   .rank = worst.from,
                   .to = worst.to,
                   .place = places(trainer, worst),
                   .excess = worst.seconds / worst.usual_seconds - 1,
                   .text = fmt::format("{}: {} ({})", longer, text_of(links_), places(trainer, worst))});
  }

  // "node a, cores 0-7 to node b, cores 0-7".
  static std::string places(train::Trainer& trainer, const SlowLink& link) {
    const auto place = [&](int64_t rank) {
      return trainer.of_rank(rank, rank == trainer.rank() ? place_of(trainer.device()) : "", "slow link");
    };
    const std::string from = place(link.from);
    return fmt::format("{} to {}", from, place(link.to));
  }

  void end_links(train::Trainer& trainer, int64_t step) {
    const int64_t from = links_.empty() ? -1 : links_.front().from, to = links_.empty() ? -1 : links_.front().to;
    links_.clear();
    tell(trainer, {.step = step,
                   .what = to < 0 ? "steps" : "link",
                   .ended = true,
                   .rank = from,
                   .to = to,
                   .text = "steps no longer take longer than before"});
  }

  void tell(train::Trainer& trainer, const observe::Slowness& slowness) {
    if (trainer.rank() != 0) return;
    if (slowness.ended) {
      log_info("{}", slowness.text);
    } else {
      log_warning("{}", slowness.text);
    }
    try {
      observe::append_slowness(trainer.config().checkpoint.folder, slowness);
    } catch (const std::exception& error) {
      // The run goes on without its record.
      log_warning("{}", error.what());
    }
  }

  std::optional<train::StepTimes> times_;
  // These three on the first rank only.
  std::optional<observe::SlowRankJudge> judge_;
  observe::WatchFindings findings_;
  std::vector<double> works_;  // by rank, in the last judged window
  std::optional<LinkProbe> probe_;
  std::vector<SlowLink> links_;  // that are slow now
  std::array<double, watch_window> totals_ = {}, steps_seconds_ = {};
  std::array<std::array<double, watch_window>, observe::num_work_kinds> kinds_ = {};
  std::shared_ptr<std::vector<float>> numbers_;  // of the gather under way, which may outlive the hook after a failure
  std::optional<comm::Work> gathering_;
  double work_ = 1, work_of_first_ = 0;
  int64_t steps_ = 0;
  bool measured_usual_ = false;
  bool shares_cores_ = false;  // then waits for cores are not counted, and explain nothing
};

}  // namespace

std::unique_ptr<train::Hook> make_watch_hook() { return std::make_unique<WatchHook>(); }

}  // namespace terrace::run
