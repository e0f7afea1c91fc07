// Makes the runs that are compared, and judges them.
#include "terrace/verify/verify.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/config/family.h"
#include "terrace/config/wire_type.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/verify/first_divergence.h"
#include "terrace/verify/named_segments.h"
#include "terrace/verify/shrink.h"
#include "terrace/verify/small_run.h"

namespace terrace::verify {
namespace {

constexpr int64_t most_guessed_ranks = 16;

// The fewest ranks, from two, on which configuration and layout fit.
int64_t fitting_ranks(const config::Config& config) {
  std::optional<UserError> first_problem;
  for (int64_t ranks = 2; ranks <= most_guessed_ranks; ++ranks) {
    try {
      schedule::check_ranks(config, ranks, ranks);
      return ranks;
    } catch (const UserError& error) {
      if (!first_problem) first_problem = error;
    }
  }
  throw UserError::of(
      "this configuration does not fit 2 to {} ranks; for 2 ranks the reason is: {}\n  give another number with "
      "--ranks",
      most_guessed_ranks, first_problem->what());
}

bool rounds_weights(const config::LayoutConfig& layout) {
  return config::rounds(layout.gather_type, 4) || config::rounds(layout.update_type, 4);
}

config::Config with_layout(config::Config config, const config::LayoutConfig& layout) {
  config.layout = layout;
  return config;
}

// The layout of the bitwise comparison: sums in rank order, and weights that are sent unrounded, since plain
// data parallelism sends and rounds no weights.
config::LayoutConfig comparable_layout(config::LayoutConfig layout) {
  layout.deterministic = true;
  layout.gather_type = layout.update_type = config::WireType::same;
  return layout;
}

// The layout of the comparison by error: no rank computes in a type whose error quantized blocks could be compared
// with.
config::LayoutConfig unquantized_layout(config::LayoutConfig layout) {
  for (config::WireType* type : {&layout.gather_type, &layout.reduce_type, &layout.update_type}) {
    if (config::is_quantized(*type)) *type = config::WireType::same;
  }
  layout.error_feedback = false;
  layout.node_type = config::NodeType::as_others;
  return layout;
}

config::LayoutConfig plain_layout(const config::LayoutConfig& layout) {
  config::LayoutConfig plain;
  plain.deterministic = true;
  plain.reduce_type = layout.reduce_type;
  plain.error_feedback = layout.error_feedback;
  // The type of a sum then depends on whether the sum is taken inside a node.
  if (layout.node_type != config::NodeType::as_others) {
    plain.node_type = layout.node_type;
    plain.ranks_per_pair = layout.ranks_per_pair;
    plain.ranks_per_node = layout.ranks_per_node;
  }
  plain.pipeline = layout.pipeline;
  plain.schedule = layout.schedule;
  plain.chunks = layout.chunks;
  plain.tensor = layout.tensor;
  plain.experts = layout.experts;
  plain.sequence_parallel = layout.sequence_parallel;
  plain.context = layout.context;
  plain.context_route = layout.context_route;
  plain.timeout = layout.timeout;
  plain.share_gpus = layout.share_gpus;
  return plain;
}

// The configuration of the same steps on one rank. A model that takes a step as one micro-batch has all samples in it.
config::Config on_one_rank(config::Config config) {
  const bool is_one = !schedule::description_of(config).why_one_micro_batch(config).empty();
  if (is_one) config.train.micro_batch = config.train.global_batch;
  return config;
}

// The configuration for one rank, which computes in bf16 if the layout sends anything in bf16.
config::Config one_rank_config(const config::Config& config) {
  config::Config one = on_one_rank(with_layout(config, {}));
  if (travels_in_bf16(config.layout)) one.train.precision = config::Precision::bf16;
  return one;
}

double unit_roundoff(config::Precision type) {
  switch (type) {
    case config::Precision::bf16:
      return 0x1p-8;
    case config::Precision::fp16:
      return 0x1p-11;
    case config::Precision::fp32:
      break;
  }
  return 0x1p-24;
}

// Turns sums of squares into distances.
ErrorPair root(const ErrorPair& squares) {
  return {.ours = std::sqrt(squares.ours),
          .one_rank = std::sqrt(squares.one_rank),
          .rounding = std::sqrt(squares.rounding)};
}

// The loss of the i-th of `parts` parts of a step, each of as many micro-batches.
double loss_of_part(const StepState& step, size_t i, size_t parts) {
  const size_t each = step.micro_batch_losses.size() / parts;
  const auto first = step.micro_batch_losses.begin() + static_cast<int64_t>(i * each);
  return std::accumulate(first, first + static_cast<int64_t>(each), 0.0);
}

double square_of(const at::Tensor& tensor) { return std::pow(at::linalg_vector_norm(tensor).item<double>(), 2); }

// The three runs from which errors are computed: the layout, one rank, and double precision, all with the same seed.
struct Draw {
  SmallRun ours, one, exact;
};

struct Accuracy {
  std::vector<Draw> draws;
  config::Precision gradient_type;

  ErrorPair of(const std::string& name, size_t compared) const {
    const double roundoff = unit_roundoff(compared == 0 ? gradient_type : config::Precision::fp32);
    ErrorPair squares;
    for (const auto& [ours, one, exact] : draws) {
      for (size_t step = 0; step < exact.steps.size(); ++step) {
        const at::Tensor& truth = exact.steps[step].tensors[compared].at(name);
        const auto square_error = [&](const SmallRun& run) {
          const double scale = compared == 0 ? run.loss_scale : 1.0;
          return square_of(run.steps[step].tensors[compared].at(name).to(at::kDouble).div(scale).sub(truth));
        };
        squares.ours += square_error(ours);
        squares.one_rank += square_error(one);
        squares.rounding += std::pow(roundoff, 2) * square_of(truth);
      }
    }
    return root(squares);
  }

  ErrorPair of_losses() const {
    ErrorPair squares;
    for (const auto& [ours, one, exact] : draws) {
      for (size_t step = 0; step < exact.steps.size(); ++step) {
        const std::vector<double>& truth = exact.steps[step].micro_batch_losses;
        for (size_t i = 0; i < truth.size(); ++i) {
          const auto square_error = [&](const SmallRun& run) {
            return std::pow(loss_of_part(run.steps[step], i, truth.size()) - truth[i], 2);
          };
          squares.ours += square_error(ours);
          squares.one_rank += square_error(one);
          squares.rounding += std::pow(unit_roundoff(config::Precision::fp32) * truth[i], 2);
        }
      }
    }
    return root(squares);
  }
};

std::vector<TensorVerdict> judge_tensors(const config::Config& small, const SmallRun& ours, const SmallRun& plain,
                                         const Accuracy& accuracy) {
  std::vector<TensorVerdict> verdicts;
  int64_t number = 0;
  for (const NamedSegment& segment : named_segments(small)) {
    for (const std::string& name : segment.parameters) {
      TensorVerdict verdict{.name = name, .segment = number, .differences = {}, .errors = {}};
      for (size_t compared = 0; compared < compared_names.size(); ++compared) {
        for (size_t step = 0; step < ours.steps.size(); ++step) {
          verdict.differences[compared].add(
              difference_of(ours.steps[step].tensors[compared].at(name), plain.steps[step].tensors[compared].at(name)));
        }
        verdict.errors[compared] = accuracy.of(name, compared);
      }
      verdicts.push_back(std::move(verdict));
    }
    ++number;
  }
  return verdicts;
}

std::string described(const config::LayoutConfig& layout) {
  config::Config given, plain;
  given.layout = layout;
  std::string text;
  for (const KeyChange& change : key_changes(plain, given)) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", change.key.substr(change.key.find('.') + 1), change.to);
  }
  return text.empty() ? "sharding = \"ddp\"" : text;
}

std::vector<std::string> notes_on(const config::Config& config, const config::Config& one) {
  std::vector<std::string> notes;
  if (rounds_weights(config.layout)) {
    notes.emplace_back(
        "weights are rounded to be sent (layout.gather_type, update_type); the bitwise comparison uses "
        "\"same\" for both");
  }
  if (config::quantizes(config.layout)) {
    notes.emplace_back("the error is that of the layout with \"same\" in place of int8, int4 and fp8");
  }
  if (config.layout.tensor > 1 || config.layout.pipeline > 1) {
    notes.emplace_back("the bitwise comparison is with plain data parallelism of the same cut of the model");
  }
  if (one.train.precision != config.train.precision) {
    notes.emplace_back("weights or gradients are sent in bf16; the error is compared with that of one rank in bf16");
  }
  return notes;
}

bool same(const Difference& difference) { return difference.elements == 0; }

}  // namespace

void Difference::add(const Difference& other) {
  elements += other.elements;
  // The negated comparison keeps a NaN.
  if (!(other.largest <= largest)) largest = other.largest;
}

bool Verdict::bitwise() const {
  return !divergence && same(losses) && same(norms) &&
         std::ranges::all_of(tensors, [](const TensorVerdict& t) { return std::ranges::all_of(t.differences, same); });
}

bool Verdict::accurate() const {
  const auto holds = [](const ErrorPair& pair) { return pair.holds(); };
  return loss_error.holds() &&
         std::ranges::all_of(tensors, [&](const TensorVerdict& t) { return std::ranges::all_of(t.errors, holds); });
}

Verdict verify(const config::Config& config, const VerifyOptions& options) {
  const int64_t ranks = options.ranks > 0 ? options.ranks : fitting_ranks(config);
  schedule::check_ranks(config, ranks, options.processes ? options.ranks_here : ranks);
  train::prepare_machine(1);
  config::Config small = shrunk(config, ranks, options.steps);
  // Threads of one process cannot share its GPU.
  if (!options.processes && small.train.device == "cuda") small.train.device = "cpu";
  const config::LayoutConfig comparable = comparable_layout(small.layout);

  const RunRanks all{.number = ranks,
                     .processes = options.processes,
                     .partition = std::make_shared<const schedule::Partition>(
                         schedule::partition(schedule::unit_table(small), small.layout))};
  const SmallRun plain = train_small(with_layout(small, plain_layout(small.layout)), all);
  const SmallRun ours = train_small(with_layout(small, comparable), all, options.decorate);
  const config::LayoutConfig unquantized = unquantized_layout(small.layout);
  Accuracy accuracy{{}, small.train.gradient_type};
  for (int64_t draw = 0; draw < options.seeds; ++draw) {
    config::Config drawn = small;
    drawn.train.seed += static_cast<uint64_t>(draw);
    accuracy.draws.push_back({draw == 0 && comparable == unquantized
                                  ? ours
                                  : train_small(with_layout(drawn, unquantized), all, options.decorate),
                              train_small(one_rank_config(drawn), {}), train_exactly(on_one_rank(drawn))});
  }

  const at::NoGradGuard no_grad;
  Verdict verdict{.ranks = ranks,
                  .steps = options.steps,
                  .sequences = small.train.global_batch,
                  .samples_name = small.family->samples,
                  .seeds = options.seeds,
                  .layout = described(small.layout),
                  .changes = key_changes(config, small),
                  .notes = notes_on(small, one_rank_config(small)),
                  .tensors = judge_tensors(small, ours, plain, accuracy),
                  .losses = {},
                  .norms = {},
                  .loss_error = accuracy.of_losses(),
                  .divergence = first_divergence(small, ours, plain)};
  for (size_t step = 0; step < ours.steps.size(); ++step) {
    verdict.losses.add(difference_of(ours.steps[step].loss, plain.steps[step].loss));
    verdict.norms.add(difference_of(ours.steps[step].norm, plain.steps[step].norm));
  }
  return verdict;
}

}  // namespace terrace::verify
