// Excludes layouts by memory and by a lower bound of their time, and simulates the others.
#include "terrace/plan/layouts/best.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "terrace/base/error.h"
#include "terrace/base/system/on_all_cores.h"
#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/plan/layouts/layout_space.h"
#include "terrace/plan/memory/communicators.h"
#include "terrace/plan/time/least_step.h"
#include "terrace/plan/time/predicted_costs.h"
#include "terrace/plan/time/tensor_reach.h"
#include "terrace/plan/time/variation.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::plan {
namespace {

// A legal layout with the bytes of its fullest stage and the least seconds that its step can take.
struct Candidate {
  size_t number = 0;
  double bytes = 0;
  double least_seconds = 0;
  bool leaves_node = false;  // its tensor groups do
  double reach = 1;          // MoveSizes::reach() of its kind; 1: no constants are moved
};

constexpr size_t most_rivals = 10;

// The sizes by which layouts that are listed differ from each other.
using ListedSizes = std::tuple<int64_t, int64_t, int64_t, bool>;

ListedSizes sizes_of(const config::Config& config) {
  const config::Sharding sharding = config.layout.sharding;
  const bool cuts_weights =
      sharding != config::Sharding::ddp && sharding != config::Sharding::zero1 && sharding != config::Sharding::zero2;
  return {config.layout.tensor, config.layout.pipeline, config.train.micro_batch, cuts_weights};
}

// Unit tables are the same for all layouts that cut a micro-batch in the same way. The costs by which units are divided
// among stages have the same proportions in all of them.
class Cache {
 public:
  SharedParts of(const config::Config& config, int64_t data_ranks) {
    schedule::MicroBatchSizes micro_batch = schedule::micro_batch_sizes_of(config, data_ranks);
    const TableKey key{config.layout.tensor, std::move(micro_batch), config.layout.sequence_parallel,
                       config.layout.context, config.layout.context_route};
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const PlannedTable>& table = tables_[key];
    if (!table) {
      table = std::make_shared<const PlannedTable>(planned_table(config, std::get<schedule::MicroBatchSizes>(key)));
    }
    std::shared_ptr<const schedule::Partition>& partition =
        partitions_[{config.layout.pipeline * config.layout.chunks, config.layout.stage_layers.empty()}];
    if (!partition) {
      partition = std::make_shared<const schedule::Partition>(planned_partition(config, *table));
    }
    return {table, partition};
  }

 private:
  using TableKey = std::tuple<int64_t, schedule::MicroBatchSizes, bool, int64_t, config::ContextRoute>;

  std::mutex mutex_;
  std::map<TableKey, std::shared_ptr<const PlannedTable>> tables_;
  std::map<std::pair<int64_t, bool>, std::shared_ptr<const schedule::Partition>> partitions_;
};

class Search {
 public:
  Search(const config::Config& config, const Target& target, const BestOptions& options)
      : config_(config),
        target_(target),
        options_(options),
        errors_(known_errors(target.machine)),
        layouts_(legal_layouts(config, target.devices, target.ranks_per_node(),
                               std::max<int64_t>(8, 2 * target.machine.devices_of("node")), options.limits)) {}

  // The best layouts, and behind the number that is asked for the rivals of the best one.
  BestLayouts run() {
    bound_all();
    std::ranges::sort(candidates_, {}, [](const Candidate& one) { return std::pair(one.least_seconds, one.number); });
    simulate_all();
    BestLayouts best{.legal = static_cast<int64_t>(layouts_.size()) - repeated_,
                     .fitting = static_cast<int64_t>(candidates_.size()),
                     .simulated = simulated_,
                     .kept = kept_settings(),
                     .allowed = options_.limits.text};
    std::vector<Candidate> found;
    for (const auto& [seconds, one] : found_) found.push_back(one);
    best.layouts.resize(found.size());
    on_all_cores(found.size(), [&](size_t place) { best.layouts[place] = change(found[place].number); });
    for (const Candidate& one : found) weights_.push_back(handicap(one));
    if (over_nodes_.first < best.layouts.front().prediction.step_seconds) best.over_nodes = change(over_nodes_.second);
    return best;
  }

  // How many times as long each of the layouts of run() counts.
  const std::vector<double>& weights() const { return weights_; }

 private:
  PlannedRun planned(size_t number) {
    const config::Config layout = divided(layouts_[number], target_.software);
    const int64_t data_ranks = target_.devices / layout.layout.ranks_of_samples();
    return on_target({layout, target_.devices, target_.ranks_per_node(), cache_.of(layout, data_ranks)}, target_);
  }

  Change change(size_t number) {
    const config::Config& layout = layouts_[number];
    return {
        .settings = differences(config_, layout), .config = layout, .prediction = predict(planned(number), target_)};
  }

  void bound_all() {
    const double memory = target_.machine.device.memory_bytes - target_.machine.device.reserved_bytes;
    on_all_cores(layouts_.size(), [&](size_t number) {
      const std::optional<PlannedRun> run = try_planned(number);
      if (!run) return;
      if (repeats_another(number, *run)) {
        const std::lock_guard lock(mutex_);
        ++repeated_;
        return;
      }
      Candidate one{.number = number, .bytes = needed_bytes(*run, target_)};
      if (one.bytes <= memory) {
        one.leaves_node = tensor_leaves_domain(run->mesh, target_.machine);
        if (options_.moves_constants) one.reach = move_sizes(layout_kind(*run, target_), errors_).reach();
        one.least_seconds =
            handicap(one) *
            least_step_seconds(*run, PredictedCosts(*run, target_.machine, target_.software, target_.block_products));
      }
      const std::lock_guard lock(mutex_);
      if (one.bytes <= memory) candidates_.push_back(one);
      if (one.bytes < smallest_.bytes || smallest_.bytes == 0) smallest_ = one;
    });
    if (candidates_.empty()) refuse(memory);
  }

  // Whether a layout that recomputes as few layers as its memory allows comes to all or none of them, which other
  // layouts do.
  bool repeats_another(size_t number, const PlannedRun& run) const {
    const std::string key = "layout.recompute_layers";
    if (layouts_[number].layout.recompute_layers.word != config::RecomputeLayers::Word::fit) return false;
    if (options_.limits.kept.contains(key) || options_.limits.kept.contains("train.recompute")) return false;
    int64_t recomputed = 0, all = 0;
    for (int64_t stage = 0; stage < run.placement.stages; ++stage) {
      recomputed += run.recomputed_layers(stage);
      all += run.recomputable_layers(stage);
    }
    return recomputed == 0 || recomputed == all;
  }

  // More virtual stages than units make no run.
  std::optional<PlannedRun> try_planned(size_t number) {
    try {
      return planned(number);
    } catch (const UserError&) {
      return std::nullopt;
    }
  }

  std::vector<std::string> kept_settings() const {
    std::vector<std::string> settings;
    for (const config::Key& key : config::keys_of(config_.family)) {
      const std::string name = key.full_name();
      if (options_.limits.kept.contains(name) && varied_keys().contains(name)) {
        settings.push_back(fmt::format("{}={}", name, key.write(config_)));
      }
    }
    return settings;
  }

  // " with layout.tensor=8, pipeline <= 4"; "" without limits.
  std::string limits_text() const {
    std::vector<std::string> limits = kept_settings();
    if (!options_.limits.text.empty()) limits.push_back(options_.limits.text);
    return limits.empty() ? "" : fmt::format(" with {}", fmt::join(limits, ", "));
  }

  void refuse(double memory) const {
    const std::string limits = limits_text();
    if (layouts_.empty()) {
      throw UserError(fmt::format("no layout of this model{} divides train.global_batch = {} among {} devices{}",
                                  limits, config_.train.global_batch, target_.devices,
                                  limits.empty() ? "" : "; leave a setting or a limit out, or use other --devices"),
                      ExitCode::infeasible);
    }
    throw UserError(fmt::format("no layout{} fits: the one that needs least memory needs {} of {} ({}); use more "
                                "devices{}",
                                limits, format_bytes(smallest_.bytes), format_bytes(memory),
                                fmt::join(differences(config_, layouts_[smallest_.number]), " "),
                                limits.empty() ? "" : ", or leave a setting or a limit out"),
                    ExitCode::infeasible);
  }

  void simulate_all() {
    on_all_cores(candidates_.size(), [&](size_t index) {
      const Candidate& one = candidates_[index];
      {
        const std::lock_guard lock(mutex_);
        if (!options_.simulates_all && one.least_seconds >= worst_of_best() && !may_be_mentioned(one)) return;
        ++simulated_;
      }
      const double seconds = predict(planned(one.number), target_).step_seconds;
      const std::lock_guard lock(mutex_);
      if (one.leaves_node) over_nodes_ = std::min(over_nodes_, {seconds, one.number});
      add_found(handicap(one) * seconds, one);
      if (options_.progress) options_.progress(static_cast<double>(index) / static_cast<double>(candidates_.size()));
    });
  }

  // A layout whose tensor groups leave the node counts as so many times as long.
  double handicap(const Candidate& one) const { return one.leaves_node ? 1 + options_.over_nodes_margin : 1; }

  void add_found(double seconds, const Candidate& candidate) {
    const ListedSizes sizes = sizes_of(layouts_[candidate.number]);
    const auto same =
        std::ranges::find(found_, sizes, [&](const auto& one) { return sizes_of(layouts_[one.second.number]); });
    if (same != found_.end()) {
      if (std::pair(same->first, same->second.number) <= std::pair(seconds, candidate.number)) return;
      found_.erase(same);
    }
    found_.emplace(seconds, candidate);
    const double limit = worst_of_best();
    // A layout that cannot overtake the best one is no rival.
    while (found_.size() > most_kept() || (found_.size() > options_.count && found_.rbegin()->first > limit)) {
      found_.erase(std::prev(found_.end()));
    }
  }

  // Whether a layout may be the fastest whose tensor groups leave the node, and faster than the best one.
  bool may_be_mentioned(const Candidate& one) const {
    if (!one.leaves_node || found_.empty()) return one.leaves_node;
    return one.least_seconds / handicap(one) < std::min(over_nodes_.first, found_.begin()->first);
  }

  size_t most_kept() const { return options_.moves_constants ? std::max(options_.count, most_rivals) : options_.count; }

  // The time from which on a layout is neither among the best nor a rival of the best one.
  double worst_of_best() const {
    if (found_.size() < options_.count) return std::numeric_limits<double>::infinity();
    const double listed = std::next(found_.begin(), static_cast<std::ptrdiff_t>(options_.count) - 1)->first;
    if (!options_.moves_constants) return listed;
    const auto& [seconds, best] = *found_.begin();
    const double rivals = best.reach * seconds;
    return std::max(listed, found_.size() < most_kept() ? rivals : std::min(rivals, found_.rbegin()->first));
  }

  const config::Config& config_;
  const Target& target_;
  const BestOptions& options_;
  const std::vector<PublishedErrors> errors_;
  std::vector<config::Config> layouts_;
  Cache cache_;
  std::mutex mutex_;
  std::vector<Candidate> candidates_;
  Candidate smallest_;
  struct FasterThenFirst {
    using Found = std::pair<double, Candidate>;
    bool operator()(const Found& a, const Found& b) const {
      return std::pair(a.first, a.second.number) < std::pair(b.first, b.second.number);
    }
  };
  // The best layouts so far with their seconds, which count the handicap.
  std::set<std::pair<double, Candidate>, FasterThenFirst> found_;
  std::vector<double> weights_;
  std::pair<double, size_t> over_nodes_{std::numeric_limits<double>::infinity(), 0};
  int64_t simulated_ = 0;
  int64_t repeated_ = 0;  // layouts that equal another one
};

// The parts of a step that the runner-up needs more seconds for than the best.
std::string reason_of(const Prediction& best, const Prediction& second) {
  const auto part = [](const Prediction& prediction, const std::string& name) {
    const StagePrediction& stage = prediction.stages[static_cast<size_t>(prediction.slowest)];
    if (name == "the bubble") return prediction.bubble_share * prediction.step_seconds;
    if (name == "the wait for queued transfers") return prediction.queued_share * prediction.step_seconds;
    if (name == "the update") return stage.update_seconds;
    if (name == "computation") return stage.computation.computing();
    double waited = 0;
    for (const ExposedTime& exposed : stage.exposed) waited += exposed.seconds;
    return waited;
  };
  std::string most;
  double more = 0;
  for (const std::string name :
       {"computation", "communication", "the bubble", "the wait for queued transfers", "the update"}) {
    const double difference = part(second, name) - part(best, name);
    if (difference > more) {
      more = difference;
      most = name;
    }
  }
  constexpr double as_fast = 0.0005;
  const double shorter = 1 - second.step_seconds / best.step_seconds;
  if (shorter >= as_fast) {
    return fmt::format(
        "the runner-up's step is predicted to be {:.1f}% shorter, which is less than such predictions err",
        100 * shorter);
  }
  if (most.empty() || shorter > 0) return "the runner-up is as fast";
  return fmt::format("the runner-up's step is {:.1f}% longer; {} takes {} more of it",
                     100 * (second.step_seconds / best.step_seconds - 1), most, format_seconds(more));
}

// The share by which steps of layouts that are tied with the best one may be longer.
double tie_of(const Change& best, const Target& target) {
  const PublishedErrors* errors = find_kind(layout_kind(best.config, target), target.machine, published_errors());
  return errors == nullptr ? 0 : errors->median_difference;
}

// Puts the layout first that holds best, before those that are tied with it.
void choose(BestLayouts& best, const std::vector<double>& weights, const Target& target) {
  const Change& fastest = best.layouts.front();
  const MoveSizes sizes = move_sizes(layout_kind(fastest.config, target), known_errors(target.machine));
  std::vector<RankedLayout> ranked;
  for (size_t i = 0; i < std::min(best.layouts.size(), most_rivals); ++i) {
    ranked.push_back({best.layouts[i], weights[i]});
    if (ranked.back().weighed_seconds() > sizes.reach() * ranked.front().weighed_seconds()) ranked.pop_back();
  }
  best.choice = held_choice(std::move(ranked), tie_of(fastest, target), target, sizes);
  const auto chosen = best.layouts.begin() + static_cast<std::ptrdiff_t>(best.choice->chosen);
  std::rotate(best.layouts.begin(), chosen, std::next(chosen));
}

}  // namespace

BestLayouts best_layouts(const config::Config& config, const Target& target, const BestOptions& options) {
  check_target(config, target);
  BestOptions with_second = options;
  with_second.count = std::max<size_t>(2, options.count);
  Search search(config, target, with_second);
  BestLayouts best = search.run();
  const double most = (1 + tie_of(best.layouts.front(), target)) * best.layouts.front().prediction.step_seconds;
  const auto is_tied = [&](size_t place) {
    return search.weights()[place] * best.layouts[place].prediction.step_seconds <= most * search.weights().front();
  };
  best.all_tied = 1;
  while (best.all_tied < std::ssize(best.layouts) && is_tied(static_cast<size_t>(best.all_tied))) ++best.all_tied;
  if (options.moves_constants) choose(best, search.weights(), target);
  if (best.layouts.size() > 1) best.why = reason_of(best.layouts[0].prediction, best.layouts[1].prediction);
  if (best.layouts.size() > options.count) best.layouts.resize(options.count);
  best.tied = std::min(best.all_tied, std::ssize(best.layouts));
  return best;
}

}  // namespace terrace::plan
