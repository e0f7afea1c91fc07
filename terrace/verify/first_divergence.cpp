// Compares the steps in the order of execution: the inputs and results of each rank's computations, the sums over
// ranks, and the optimizer step.
#include "terrace/verify/first_divergence.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

#include "terrace/base/error.h"
#include "terrace/verify/named_segments.h"

namespace terrace::verify {
namespace {

struct Words {
  const char* operation;
  const char* result;
};

Words words_of(LoggedDigest::What what) {
  switch (what) {
    case LoggedDigest::What::weight_forward:
      return {"gather weights", "the weights that forward computes with"};
    case LoggedDigest::What::output:
      return {"forward", "the output of forward"};
    case LoggedDigest::What::weight_again:
      return {"gather weights", "the weights that recompute in backward computes with"};
    case LoggedDigest::What::output_again:
      return {"recompute", "the output of forward, computed again in backward"};
    case LoggedDigest::What::loss:
      return {"loss", "the loss of a micro-batch"};
    case LoggedDigest::What::input_gradient:
      return {"backward", "the gradient that backward passes on"};
    case LoggedDigest::What::weight_backward:
      return {"gather weights", "the weights that backward computes with"};
    case LoggedDigest::What::buffer:
      return {"forward", "the buffer that forward reads"};
  }
  TERRACE_CHECK(false, "no such event");
}

class Search {
 public:
  Search(const config::Config& config, const SmallRun& ours, const SmallRun& plain)
      : ours_(ours), plain_(plain), segments_(named_segments(config)) {}

  std::optional<Divergence> first() {
    for (size_t step = 0; step < ours_.steps.size(); ++step) {
      const auto number = static_cast<int64_t>(step) + 1;
      if (auto found = in_digest_logs(number)) return found;
      if (auto found = in_gradients(step)) return found;
      if (auto found = in_figures(step)) return found;
      if (auto found = in_states(step)) return found;
    }
    if (auto found = in_digest_logs(static_cast<int64_t>(ours_.steps.size()) + 1)) return found;
    return between_ranks();
  }

 private:
  const NamedSegment& segment(int64_t number) const { return segments_.at(static_cast<size_t>(number)); }

  std::string named(int64_t number) const {
    const std::string& name = segment(number).name;
    return name.empty() ? fmt::format("segment {}", number) : fmt::format("segment {} ({})", number, name);
  }

  // The earliest digest that differs on any rank. A position in the log means the same on all ranks, which run the same
  // program.
  std::optional<Divergence> in_digest_logs(int64_t step) const {
    const LoggedDigest* first = nullptr;
    size_t first_index = std::numeric_limits<size_t>::max(), first_rank = 0;
    for (size_t rank = 0; rank < ours_.digest_logs.size(); ++rank) {
      const DigestLog &ours = ours_.digest_logs[rank], &plain = plain_.digest_logs[rank];
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
                     .segment = first->segment,
                     .segment_name = segment(first->segment).name,
                     .rank = static_cast<int64_t>(first_rank),
                     .micro_batch = first->micro_batch,
                     .operation = words.operation,
                     .tensor = first->tensor,
                     .what = {}};
    found.what = fmt::format("step {}{}, {}, rank {}, micro-batch {}: {}{}", step, after ? " (forward alone)" : "",
                             named(first->segment), first_rank, first->micro_batch, words.result,
                             first->tensor.empty() ? "" : ", " + first->tensor);
    return found;
  }

  // A buffer that differs between ranks, of which a checkpoint keeps only one.
  std::optional<Divergence> between_ranks() const {
    std::map<std::tuple<int64_t, int64_t, std::string>, uint64_t> known;  // by step, micro-batch of the rank, and name
    for (size_t rank = 0; rank < ours_.digest_logs.size(); ++rank) {
      for (const LoggedDigest& one : ours_.digest_logs[rank]) {
        if (one.what != LoggedDigest::What::buffer) continue;
        const auto [first, is_new] = known.emplace(std::tuple(one.step, one.micro_batch, one.tensor), one.digest);
        if (is_new || first->second == one.digest) continue;
        return Divergence{
            .step = one.step,
            .segment = one.segment,
            .segment_name = segment(one.segment).name,
            .rank = static_cast<int64_t>(rank),
            .micro_batch = one.micro_batch,
            .operation = "forward",
            .tensor = one.tensor,
            .what = fmt::format("step {}, {}, rank {}, micro-batch {}: the buffer {} is not that of other "
                                "ranks",
                                one.step, named(one.segment), rank, one.micro_batch, one.tensor)};
      }
    }
    return std::nullopt;
  }

  std::optional<Divergence> in_tensors(size_t step, int64_t number, ComparedTensor compared, const char* operation,
                                       std::string_view result) const {
    const auto index = static_cast<size_t>(compared);
    for (const std::string& name : segment(number).parameters) {
      const Difference difference =
          difference_of(ours_.steps[step].tensors[index].at(name), plain_.steps[step].tensors[index].at(name));
      if (difference.elements == 0) continue;
      return Divergence{.step = static_cast<int64_t>(step) + 1,
                        .segment = number,
                        .segment_name = segment(number).name,
                        .operation = operation,
                        .tensor = name,
                        .what = fmt::format("step {}, {}: {} of {}, {} elements, by up to {:.2g}", step + 1,
                                            named(number), result, name, difference.elements, difference.largest)};
    }
    return std::nullopt;
  }

  // Backward computes gradients from the last segment to the first.
  std::optional<Divergence> in_gradients(size_t step) const {
    for (auto number = static_cast<int64_t>(segments_.size()) - 1; number >= 0; --number) {
      auto found = in_tensors(step, number, ComparedTensor::gradient, "reduce gradients", "the summed gradient");
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
                        .segment_name = {},
                        .operation = operation,
                        .tensor = {},
                        .what = fmt::format("step {}: {}", number, result)};
    };
    if (differs(&StepState::loss)) return found("sum of losses", "the loss, summed over ranks");
    if (differs(&StepState::norm)) return found("gradient norm", "the gradient norm");
    return std::nullopt;
  }

  std::optional<Divergence> in_states(size_t step) const {
    for (int64_t number = 0; number < static_cast<int64_t>(segments_.size()); ++number) {
      for (const auto& [compared, result] : {std::pair(ComparedTensor::first_moment, "the first moment"),
                                             std::pair(ComparedTensor::second_moment, "the second moment"),
                                             std::pair(ComparedTensor::weight, "the updated weight")}) {
        if (auto found = in_tensors(step, number, compared, "optimizer step", result)) return found;
      }
    }
    return std::nullopt;
  }

  const SmallRun& ours_;
  const SmallRun& plain_;
  std::vector<NamedSegment> segments_;
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

std::optional<Divergence> first_divergence(const config::Config& config, const SmallRun& ours, const SmallRun& plain) {
  return Search(config, ours, plain).first();
}

}  // namespace terrace::verify
