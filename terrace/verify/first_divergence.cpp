// Walks through the steps in the order of execution: what ranks computed with and what came of it, sums over ranks, the
// optimizer's step.
#include "terrace/verify/first_divergence.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/models/model.h"

namespace terrace::verify {
namespace {

struct Words {
  const char* operation;
  const char* result;
};

Words words_of(TraceEvent::What what) {
  switch (what) {
    case TraceEvent::What::weight_forward:
      return {"gather weights", "the weights that forward computes with"};
    case TraceEvent::What::output:
      return {"forward", "the output of forward"};
    case TraceEvent::What::weight_again:
      return {"gather weights", "the weights that recompute in backward computes with"};
    case TraceEvent::What::output_again:
      return {"recompute", "the output of forward, computed again in backward"};
    case TraceEvent::What::loss:
      return {"loss", "the loss of a micro-batch"};
    case TraceEvent::What::input_gradient:
      return {"backward", "the gradient that backward passes on"};
    case TraceEvent::What::weight_backward:
      return {"gather weights", "the weights that backward computes with"};
  }
  TERRACE_CHECK(false, "no such event");
}

class Search {
 public:
  Search(const config::Config& config, const Trial& ours, const Trial& plain)
      : ours_(ours), plain_(plain), model_(model_with_units_of(config.layout, config.model, {.device = at::kMeta})) {}

  std::optional<Divergence> first() {
    for (size_t step = 0; step < ours_.steps.size(); ++step) {
      const auto number = static_cast<int64_t>(step) + 1;
      if (auto found = in_traces(number)) return found;
      if (auto found = in_gradients(step)) return found;
      if (auto found = in_figures(step)) return found;
      if (auto found = in_states(step)) return found;
    }
    return in_traces(static_cast<int64_t>(ours_.steps.size()) + 1);
  }

 private:
  std::string named(int64_t unit) const {
    const std::string name = unit_name(*model_, unit);
    return name.empty() ? fmt::format("unit {}", unit) : fmt::format("unit {} ({})", unit, name);
  }

  // The earliest event of any rank: all have the same program.
  std::optional<Divergence> in_traces(int64_t step) const {
    const TraceEvent* first = nullptr;
    size_t first_index = std::numeric_limits<size_t>::max(), first_rank = 0;
    for (size_t rank = 0; rank < ours_.traces.size(); ++rank) {
      const Trace &ours = ours_.traces[rank], &plain = plain_.traces[rank];
      TERRACE_CHECK(ours.size() == plain.size(), "two layouts run one program");
      for (size_t i = 0; i < ours.size() && i < first_index; ++i) {
        TERRACE_CHECK(ours[i].same_place(plain[i]), "two layouts run one program");
        if (ours[i].step != step || ours[i].digest == plain[i].digest) continue;
        first = &ours[i];
        first_index = i;
        first_rank = rank;
      }
    }
    if (first == nullptr) return std::nullopt;
    const Words words = words_of(first->what);
    const bool after = step > static_cast<int64_t>(ours_.steps.size());
    Divergence found{.step = step,
                     .unit = first->unit,
                     .unit_name = unit_name(*model_, first->unit),
                     .rank = static_cast<int64_t>(first_rank),
                     .micro_batch = first->micro_batch,
                     .operation = words.operation,
                     .tensor = first->tensor,
                     .what = {}};
    found.what = fmt::format("step {}{}, {}, rank {}, micro-batch {}: {}{}", step, after ? " (forward alone)" : "",
                             named(first->unit), first_rank, first->micro_batch, words.result,
                             first->tensor.empty() ? "" : ", " + first->tensor);
    return found;
  }

  std::optional<Divergence> in_tensors(size_t step, int64_t unit, Compared compared, const char* operation,
                                       std::string_view result) const {
    const auto index = static_cast<size_t>(compared);
    for (const nn::Parameter* parameter : model_->unit_parameters(unit)) {
      const Difference difference = difference_of(ours_.steps[step].tensors[index].at(parameter->name),
                                                  plain_.steps[step].tensors[index].at(parameter->name));
      if (difference.elements == 0) continue;
      return Divergence{
          .step = static_cast<int64_t>(step) + 1,
          .unit = unit,
          .unit_name = unit_name(*model_, unit),
          .operation = operation,
          .tensor = parameter->name,
          .what = fmt::format("step {}, {}: {} of {}, {} elements, by up to {:.2g}", step + 1, named(unit), result,
                              parameter->name, difference.elements, difference.largest)};
    }
    return std::nullopt;
  }

  // Backward goes from the last unit to the first.
  std::optional<Divergence> in_gradients(size_t step) const {
    for (int64_t unit = model_->num_units() - 1; unit >= 0; --unit) {
      auto found = in_tensors(step, unit, Compared::gradient, "reduce gradients", "the summed gradient");
      if (found) return found;
    }
    return std::nullopt;
  }

  std::optional<Divergence> in_figures(size_t step) const {
    const auto number = static_cast<int64_t>(step) + 1;
    const auto differs = [&](double StepState::*figure) {
      return difference_of(ours_.steps[step].*figure, plain_.steps[step].*figure).elements > 0;
    };
    const auto found = [&](const char* operation, const char* result) {
      return Divergence{.step = number,
                        .unit_name = {},
                        .operation = operation,
                        .tensor = {},
                        .what = fmt::format("step {}: {}", number, result)};
    };
    if (differs(&StepState::loss)) return found("sum of losses", "the loss, summed over ranks");
    if (differs(&StepState::norm)) return found("gradient norm", "the gradient norm");
    return std::nullopt;
  }

  std::optional<Divergence> in_states(size_t step) const {
    for (int64_t unit = 0; unit < model_->num_units(); ++unit) {
      for (const auto& [compared, result] : {std::pair(Compared::first_moment, "the first moment"),
                                             std::pair(Compared::second_moment, "the second moment"),
                                             std::pair(Compared::weight, "the updated weight")}) {
        if (auto found = in_tensors(step, unit, compared, "optimizer step", result)) return found;
      }
    }
    return std::nullopt;
  }

  const Trial& ours_;
  const Trial& plain_;
  std::unique_ptr<models::Model> model_;
};

}  // namespace

Difference difference_of(const at::Tensor& ours, const at::Tensor& other) {
  const int64_t elements = ours.view(at::kInt).ne(other.view(at::kInt)).sum().item<int64_t>();
  if (elements == 0) return {};
  return {.elements = elements, .largest = ours.sub(other).abs().max().item<double>()};
}

Difference difference_of(double ours, double other) {
  if (std::bit_cast<uint64_t>(ours) == std::bit_cast<uint64_t>(other)) return {};
  return {.elements = 1, .largest = std::abs(ours - other)};
}

std::optional<Divergence> first_divergence(const config::Config& config, const Trial& ours, const Trial& plain) {
  return Search(config, ours, plain).first();
}

}  // namespace terrace::verify
