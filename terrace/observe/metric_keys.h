// The keys of the metrics in their order. The code for every format uses this list.
#pragma once

#include <string>
#include <type_traits>

#include "terrace/observe/metrics.h"

namespace terrace::observe {

// The object of an evaluation's losses by corpus; evaluations of one corpus have none.
constexpr const char* by_corpus_key = "validation_loss_by_corpus";

// Calls visit(key, number) for each figure; an empty list has the length of the names from here on.
template <typename Figures, typename Visit>
void for_each_figure(Figures& figures, const MetricNames& names, const std::string& prefix, Visit visit) {
  for (size_t i = 0; i < names.figures.size(); ++i) {
    if constexpr (std::is_const_v<Figures>) {
      visit(prefix + names.figures[i], i < figures.size() ? figures[i] : std::numeric_limits<double>::quiet_NaN());
    } else {
      figures.resize(names.figures.size());
      visit(prefix + names.figures[i], figures[i]);
    }
  }
}

// Calls visit(key, field) for each; const metrics give const fields.
template <typename Step, typename Visit>
requires std::is_same_v<std::remove_const_t<Step>, StepMetrics>
void for_each_key(Step& metrics, const MetricNames& names, Visit visit) {
  visit(std::string("step"), metrics.step);
  visit(std::string("loss"), metrics.loss);
  visit(std::string("gradient_norm"), metrics.gradient_norm);
  visit(std::string("learning_rate"), metrics.learning_rate);
  visit(names.items, metrics.items);
  visit(names.items + "_per_second", metrics.items_per_second);
  visit(std::string("step_seconds"), metrics.step_seconds);
  visit(std::string("mfu"), metrics.mfu);
  visit(std::string("peak_flops_per_second"), metrics.peak_flops_per_second);
  visit(std::string("memory_bytes"), metrics.memory_bytes);
  for_each_figure(metrics.figures, names, "", visit);
}

template <typename Evaluation, typename Visit>
requires std::is_same_v<std::remove_const_t<Evaluation>, EvaluationMetrics>
void for_each_key(Evaluation& metrics, const MetricNames& names, Visit visit) {
  visit(std::string("step"), metrics.step);
  visit(std::string("validation_loss"), metrics.validation_loss);
  for_each_figure(metrics.figures, names, "validation_", visit);
}

}  // namespace terrace::observe
