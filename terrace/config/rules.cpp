// Defines every rule that involves more than one of the keys that every configuration has.
#include "terrace/config/rules.h"

#include <algorithm>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/base/text/units.h"
#include "terrace/config/divisors.h"
#include "terrace/config/domain.h"
#include "terrace/config/family.h"
#include "terrace/config/wire_type.h"

namespace terrace::config {
namespace {

std::string micro_batch_divides_batch(const Config& c) {
  const auto& [micro, global] = std::pair(c.train.micro_batch, c.train.global_batch);
  if (micro == 0 || global % micro == 0 || !c.family->settings.equal_shares) return "";
  std::vector<int64_t> multiples = {(global / micro) * micro, (global / micro + 1) * micro};
  if (multiples.front() == 0) multiples.erase(multiples.begin());
  return fmt::format(
      "train.global_batch = {} is not a multiple of micro_batch = {}; use micro_batch {}, or global_batch {}", global,
      micro, listed(divisors_near(global, micro)), listed(multiples));
}

std::string ramp_is_complete(const Config& c) {
  const TrainConfig& train = c.train;
  const bool increments = train.ramp_increment > 0, samples = train.ramp_samples > 0;
  if (train.ramp_start > 0 && !(increments && samples)) {
    return fmt::format("train.ramp_start = {} needs ramp_increment and ramp_samples, both at least 1",
                       train.ramp_start);
  }
  return "";
}

std::string ramp_reaches_batch(const Config& c) {
  const auto& [start, increment, global] = std::tuple(c.train.ramp_start, c.train.ramp_increment, c.train.global_batch);
  if (start == 0 || increment == 0) return "";
  if (start >= global) {
    return fmt::format("train.ramp_start = {} must be below global_batch = {}; use less, or 0 for no ramp-up", start,
                       global);
  }
  if ((global - start) % increment != 0) {
    return fmt::format(
        "train.ramp_increment = {} does not lead from ramp_start = {} to global_batch = {}: {} {} are between "
        "them; use {}",
        increment, start, global, global - start, c.family->samples, listed(divisors_near(global - start, increment)));
  }
  constexpr int64_t most_increments = 100'000;
  if ((global - start) / increment > most_increments) {
    return fmt::format("train.ramp_increment = {} makes {} increments; at most {} are kept, use at least {}", increment,
                       (global - start) / increment, most_increments, (global - start) / most_increments + 1);
  }
  return "";
}

std::string micro_batch_divides_ramp(const Config& c) {
  const TrainConfig& train = c.train;
  if (train.ramp_start == 0 || !c.family->settings.equal_shares) return "";
  const int64_t micro = train.micro_batch == 0 ? train.global_batch : train.micro_batch;
  if (train.ramp_start % micro == 0 && train.ramp_increment % micro == 0) return "";
  const int64_t common = std::gcd(std::gcd(train.ramp_start, train.ramp_increment), train.global_batch);
  return fmt::format("train.micro_batch = {} does not divide both ramp_start = {} and ramp_increment = {}; use {}",
                     micro, train.ramp_start, train.ramp_increment, listed(divisors_near(common, micro)));
}

std::string budget_limits_sizes(const Config& c) {
  const Sizes& budget = c.train.micro_batch_sizes;
  if (budget.empty() || !c.family->settings.sizes.empty()) return "";
  return fmt::format(
      "train.micro_batch_sizes = {} limits sizes in which samples differ, and all {} of model.family = \"{}\" are "
      "equal "
      "in size; use train.micro_batch",
      toml_text(budget), c.family->samples, c.family->name);
}

std::string budget_replaces_micro_batch(const Config& c) {
  const Sizes& budget = c.train.micro_batch_sizes;
  if (budget.empty() || c.train.micro_batch == 0) return "";
  return fmt::format(
      "train.micro_batch_sizes = {} and micro_batch = {} both say what a micro-batch holds; give one of "
      "them",
      toml_text(budget), c.train.micro_batch);
}

std::string gradient_type_fits(const Config& c) {
  const auto& [type, precision] = std::pair(c.train.gradient_type, c.train.precision);
  if (type == Precision::fp32 || type == precision) return "";
  return fmt::format("train.gradient_type = \"{}\" does not go with precision = \"{}\"; use \"fp32\"{}", name_of(type),
                     name_of(precision),
                     precision == Precision::fp32 ? "" : fmt::format(" or \"{}\"", name_of(precision)));
}

std::string skipped_ranges_are_disjoint(const Config& c) {
  StepRanges ranges = c.train.skip_steps;
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    const auto& [first, last] = ranges[i - 1];
    if (ranges[i].first > last) continue;
    return fmt::format("train.skip_steps has {} and {}, which overlap; write {}", toml_text(ranges[i - 1]),
                       toml_text(ranges[i]), toml_text(std::pair(first, std::max(last, ranges[i].second))));
  }
  return "";
}

std::string skipped_steps_are_taken(const Config& c) {
  const int64_t steps = c.train.steps;
  for (const auto& range : c.train.skip_steps) {
    const auto& [first, last] = range;
    if (last <= steps) continue;
    const std::string remedy = first <= steps ? "write " + toml_text(std::pair(first, steps)) : "remove it";
    return fmt::format(
        "train.skip_steps has {}, which reaches beyond train.steps = {}; {}, or use steps of at least {}",
        toml_text(range), steps, remedy, last);
  }
  return "";
}

std::string warmup_fits(const Config& c) {
  if (c.optimizer.warmup_steps <= c.train.steps) return "";
  return fmt::format(
      "optimizer.warmup_steps = {} is more than train.steps = {}; use warmup_steps of 0 to {}, or steps of at least {}",
      c.optimizer.warmup_steps, c.train.steps, c.train.steps, c.optimizer.warmup_steps);
}

std::string decay_fits(const Config& c) {
  const OptimizerConfig& o = c.optimizer;
  const std::string_view schedule = name_of(o.schedule);
  if (o.schedule == Decay::constant) return "";
  if (o.schedule != Decay::wsd) {
    if (o.decay_steps == 0 || o.decay_steps >= o.warmup_steps) return "";
    return fmt::format(
        "optimizer.decay_steps = {} ends the decay before the warm-up of {} steps; use at least {}, or 0",
        o.decay_steps, o.warmup_steps, o.warmup_steps);
  }
  const int64_t room = c.train.steps - o.warmup_steps;
  if (room < 1) {
    return fmt::format(
        "optimizer.schedule = \"{}\" has no step left for its decay: warmup_steps = {}, train.steps = {}; use {}steps "
        "of "
        "at least {}",
        schedule, o.warmup_steps, c.train.steps,
        c.train.steps > 1 ? fmt::format("warmup_steps of 0 to {}, or ", c.train.steps - 1) : "", o.warmup_steps + 1);
  }
  if (o.decay_steps >= 1 && o.decay_steps <= room) return "";
  return fmt::format(
      "optimizer.schedule = \"{}\" needs decay_steps of 1 to {} (train.steps - warmup_steps), not {}{}", schedule, room,
      o.decay_steps,
      o.decay_steps > room ? fmt::format("; or use steps of at least {}", o.warmup_steps + o.decay_steps) : "");
}

std::string min_rate_fits(const Config& c) {
  const OptimizerConfig& o = c.optimizer;
  if (o.min_learning_rate <= o.learning_rate) return "";
  return fmt::format("optimizer.min_learning_rate = {} is above learning_rate = {}; use at most that",
                     o.min_learning_rate, o.learning_rate);
}

std::string hybrid_has_a_group(const Config& c) {
  if (c.layout.sharding != Sharding::hybrid || c.layout.shard_group > 0) return "";
  return "layout.sharding = \"hybrid\" needs layout.shard_group, the ranks that share one copy, such as 8";
}

std::string schedule_has_its_chunks(const Config& c) {
  const auto& [schedule, chunks] = std::pair(c.layout.schedule, c.layout.chunks);
  const std::string_view name = name_of(schedule);
  if (schedule == PipelineSchedule::interleaved || c.layout.pipeline == 1) return "";
  if (schedule == PipelineSchedule::zb_v) {
    return chunks == 2 ? "" : fmt::format("layout.schedule = \"zb-v\" needs chunks = 2, not {}", chunks);
  }
  if (chunks == 1) return "";
  return fmt::format(
      "layout.schedule = \"{}\" has one virtual stage a stage, not chunks = {}; use 1, or "
      "schedule = \"interleaved\"{}",
      name, chunks, chunks == 2 ? " or \"zb-v\"" : "");
}

// The embedding and the head are units too, so a virtual stage can consist of one of them alone.
std::string virtual_stages_have_layers(const Config& c) {
  const int64_t virtual_stages = c.layout.pipeline * c.layout.chunks, layers = c.family->settings.layers(c),
                units = layers + 2;
  if (virtual_stages > units) {
    return fmt::format(
        "layout.pipeline = {} with chunks = {} cuts the {} layers, embedding and head of the model into {} "
        "virtual stages; use at most {} virtual stages",
        c.layout.pipeline, c.layout.chunks, layers, virtual_stages, units);
  }
  const std::vector<int64_t>& given = c.layout.stage_layers;
  if (given.empty() || c.layout.pipeline == 1) return "";
  const int64_t sum = std::accumulate(given.begin(), given.end(), int64_t{0});
  const auto numbers = static_cast<int64_t>(given.size());
  bool empty_inside = false;
  for (size_t i = 1; i + 1 < given.size(); ++i) empty_inside = empty_inside || given[i] == 0;
  if (numbers == virtual_stages && sum == layers && !empty_inside) return "";
  return fmt::format(
      "layout.stage_layers has {} numbers with the sum {}{}; give {} (pipeline * chunks), each above 0 but for the "
      "first and the last, with the sum of the {} layers",
      numbers, sum, empty_inside ? " and a virtual stage without layers" : "", virtual_stages, layers);
}

std::string recomputed_layers_fit_stages(const Config& c) {
  const std::vector<int64_t>& numbers = c.layout.recompute_layers.numbers;
  const int64_t layers = c.family->settings.layers(c), stages = c.layout.pipeline;
  if (numbers.size() > 1 && std::ssize(numbers) != stages) {
    return fmt::format("layout.recompute_layers has {} numbers; give {} (pipeline), or one number for all stages",
                       numbers.size(), stages);
  }
  const auto too_large = std::ranges::find_if(numbers, [&](int64_t number) { return number > layers; });
  if (too_large == numbers.end()) return "";
  return fmt::format("layout.recompute_layers has {}, and the model has {} layers; use at most {}, or \"all\"",
                     *too_large, layers, layers);
}

std::string copies_meet_at_the_end(const Config& c) {
  const auto& [every, steps] = std::pair(c.layout.outer_every, c.train.steps);
  if (every == 0 || steps % every == 0) return "";
  return fmt::format(
      "layout.outer_every = {} does not divide train.steps = {}, after which the copies would differ; use steps of {}",
      every, steps, multiples_around(steps, every));
}

std::string copies_meet_before_evaluations(const Config& c) {
  const auto& [every, evaluate] = std::pair(c.layout.outer_every, c.train.evaluate_every);
  if (every == 0 || evaluate % every == 0) return "";
  return fmt::format(
      "layout.outer_every = {} does not divide train.evaluate_every = {}, and copies that differ have no loss in "
      "common; use evaluate_every = {}",
      every, evaluate, multiples_around(evaluate, every));
}

std::string copies_sum_apart(const Config& c) {
  if (c.layout.outer_every == 0 || !c.layout.deterministic) return "";
  return fmt::format(
      "layout.outer_every = {} and deterministic = true, which sums the gradients of all ranks in every step; remove "
      "one of them",
      c.layout.outer_every);
}

std::string copies_differ(const Config& c) {
  if (c.layout.outer_every == 0 || (c.train.check_states_every == 0 && c.train.check_computation_every == 0)) return "";
  return fmt::format(
      "train.check_states_every = {} and check_computation_every = {} compare ranks that hold the same, and with "
      "layout.outer_every = {} copies differ on purpose; set both to 0, or leave outer_every out",
      c.train.check_states_every, c.train.check_computation_every, c.layout.outer_every);
}

std::string copies_have_no_noise_scale(const Config& c) {
  if (c.layout.outer_every == 0 || c.train.noise_scale_every == 0) return "";
  return fmt::format(
      "train.noise_scale_every = {} compares gradients with their sum over all ranks, which layout.outer_every = {} "
      "never takes; remove one of them",
      c.train.noise_scale_every, c.layout.outer_every);
}

std::string samples_have_positions(const Config& c) {
  if (c.layout.context == 1 || c.family->settings.cuts_positions) return "";
  return fmt::format(
      "layout.context = {} cuts the positions of a sample, which models of the family \"{}\" keep whole; use 1",
      c.layout.context, c.family->name);
}

std::string models_have_experts(const Config& c) {
  if (c.layout.experts == 1 || c.family->settings.has_experts) return "";
  return fmt::format("layout.experts = {} divides experts, which models of the family \"{}\" do not have; use 1",
                     c.layout.experts, c.family->name);
}

// The keys that compare or bring together ranks by their samples, and so need that each rank's work is that of whole
// samples.
std::string beside_ranks_that_share_samples(const Config& c, const char* key, int64_t ranks) {
  if (ranks == 1) return "";
  std::vector<std::string> keys;
  if (c.layout.outer_every > 0) keys.push_back(fmt::format("layout.outer_every = {}", c.layout.outer_every));
  if (c.train.noise_scale_every > 0)
    keys.push_back(fmt::format("train.noise_scale_every = {}", c.train.noise_scale_every));
  if (c.train.check_computation_every > 0) {
    keys.push_back(fmt::format("train.check_computation_every = {}", c.train.check_computation_every));
  }
  if (keys.empty()) return "";
  return fmt::format(
      "layout.{} = {} beside {}, which take{} each rank's work for that of whole samples; use 0, or {} = 1", key, ranks,
      fmt::join(keys, " and "), keys.size() == 1 ? "s" : "", key);
}

std::string context_ranks_share_samples(const Config& c) {
  return beside_ranks_that_share_samples(c, "context", c.layout.context);
}

std::string expert_ranks_share_samples(const Config& c) {
  return beside_ranks_that_share_samples(c, "experts", c.layout.experts);
}

std::string pairs_fit_nodes(const Config& c) {
  const auto& [pair, node] = std::pair(c.layout.ranks_per_pair, c.layout.ranks_per_node);
  if (node == 0 || node % pair == 0 || node < pair) return "";
  return fmt::format("layout.ranks_per_node = {} is not a multiple of ranks_per_pair = {}; use ranks_per_pair {}", node,
                     pair, listed(divisors_near(node, pair)));
}

std::string fed_back_errors_are_of_quantized_values(const Config& c) {
  if (!c.layout.error_feedback || is_quantized(c.layout.reduce_type)) return "";
  return fmt::format(
      "layout.error_feedback = true has no errors to feed back with layout.reduce_type = \"{}\"; remove it, or use "
      "reduce_type = \"int8\", \"int4\" or \"fp8\"",
      name_of(c.layout.reduce_type));
}

std::string kept_steps_are_saved(const Config& c) {
  const auto& [every, keep_every] = std::pair(c.checkpoint.every, c.checkpoint.keep_every);
  if (keep_every == 0 || keep_every % every == 0) return "";
  return fmt::format("checkpoint.keep_every = {} is not a multiple of every = {}; use {}", keep_every, every,
                     (keep_every / every + 1) * every);
}

std::string staging_is_elsewhere(const Config& c) {
  const auto& [staging, folder] = std::pair(c.checkpoint.staging, c.checkpoint.folder);
  if (staging.empty() || staging != folder) return "";
  return fmt::format("checkpoint.staging = \"{}\" is the run's folder too; name another one, on a fast local disk",
                     staging);
}

}  // namespace

const std::vector<Rule>& core_rules() {
  static const std::vector<Rule> list = {
      {{"train.global_batch", "train.micro_batch"}, micro_batch_divides_batch},
      {{"train.ramp_start", "train.ramp_increment", "train.ramp_samples"}, ramp_is_complete},
      {{"train.ramp_start", "train.ramp_increment", "train.global_batch"}, ramp_reaches_batch},
      {{"train.micro_batch", "train.ramp_start", "train.ramp_increment", "train.global_batch"},
       micro_batch_divides_ramp},
      {{"train.micro_batch_sizes"}, budget_limits_sizes},
      {{"train.micro_batch_sizes", "train.micro_batch"}, budget_replaces_micro_batch},
      {{"train.gradient_type", "train.precision"}, gradient_type_fits},
      {{"train.skip_steps"}, skipped_ranges_are_disjoint},
      {{"train.skip_steps", "train.steps"}, skipped_steps_are_taken},
      {{"optimizer.warmup_steps", "train.steps"}, warmup_fits},
      {{"optimizer.decay_steps", "optimizer.schedule", "optimizer.warmup_steps", "train.steps"}, decay_fits},
      {{"optimizer.min_learning_rate", "optimizer.learning_rate", "optimizer.schedule"}, min_rate_fits},
      {{"layout.schedule", "layout.chunks", "layout.pipeline"}, schedule_has_its_chunks},
      {{"layout.pipeline", "layout.chunks", "layout.stage_layers", "model.layers"}, virtual_stages_have_layers},
      {{"layout.recompute_layers", "layout.pipeline", "model.layers"}, recomputed_layers_fit_stages},
      {{"layout.outer_every", "train.steps"}, copies_meet_at_the_end},
      {{"layout.outer_every", "train.evaluate_every"}, copies_meet_before_evaluations},
      {{"layout.outer_every", "layout.deterministic"}, copies_sum_apart},
      {{"layout.outer_every", "train.noise_scale_every"}, copies_have_no_noise_scale},
      {{"layout.outer_every", "train.check_states_every", "train.check_computation_every"}, copies_differ},
      {{"layout.sharding", "layout.shard_group"}, hybrid_has_a_group},
      {{"layout.context"}, samples_have_positions},
      {{"layout.experts"}, models_have_experts},
      {{"layout.experts", "layout.outer_every", "train.noise_scale_every", "train.check_computation_every"},
       expert_ranks_share_samples},
      {{"layout.context", "layout.outer_every", "train.noise_scale_every", "train.check_computation_every"},
       context_ranks_share_samples},
      {{"layout.ranks_per_node", "layout.ranks_per_pair"}, pairs_fit_nodes},
      {{"layout.error_feedback", "layout.reduce_type"}, fed_back_errors_are_of_quantized_values},
      {{"checkpoint.keep_every", "checkpoint.every"}, kept_steps_are_saved},
      {{"checkpoint.staging", "checkpoint.folder"}, staging_is_elsewhere},
  };
  return list;
}

}  // namespace terrace::config
