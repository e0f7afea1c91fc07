// The keys of the metrics in their order. The code for every format uses this list.
#pragma once

#include <type_traits>

#include "terrace/observe/metrics.h"

namespace terrace::observe {

// The object of an evaluation's losses by corpus; evaluations of one corpus have none.
constexpr const char* by_corpus_key = "validation_loss_by_corpus";

// Calls visit(key, field) for each; const metrics give const fields.
template <typename Step, typename Visit>
requires std::is_same_v<std::remove_const_t<Step>, StepMetrics>
void for_each_key(Step& metrics, Visit visit) {
  visit("step", metrics.step);
  visit("loss", metrics.loss);
  visit("gradient_norm", metrics.gradient_norm);
  visit("learning_rate", metrics.learning_rate);
  visit("tokens", metrics.tokens);
  visit("tokens_per_second", metrics.tokens_per_second);
  visit("step_seconds", metrics.step_seconds);
  visit("mfu", metrics.mfu);
  visit("peak_flops_per_second", metrics.peak_flops_per_second);
  visit("memory_bytes", metrics.memory_bytes);
}

template <typename Evaluation, typename Visit>
requires std::is_same_v<std::remove_const_t<Evaluation>, EvaluationMetrics>
void for_each_key(Evaluation& metrics, Visit visit) {
  visit("step", metrics.step);
  visit("validation_loss", metrics.validation_loss);
}

}  // namespace terrace::observe
