// The keys of the metrics in their order. The code for every format uses this list.
#pragma once

#include <string>
#include <type_traits>

#include "terrace/observe/metrics.h"

namespace terrace::observe {

// The object of an evaluation's figure by dataset; evaluations of one dataset have none.
inline std::string by_dataset_key(const std::string& key) { return key + "_by_dataset"; }
constexpr const char* older_by_dataset_key = "validation_loss_by_corpus";  // what earlier versions wrote

// Calls visit(key, number) for each figure; an empty list has the length of the names from here on.
template <typename Figures, typename Visit>
void for_each_figure(Figures& figures, const std::vector<std::string>& names, const std::string& prefix, Visit visit) {
  for (size_t i = 0; i < names.size(); ++i) {
    if constexpr (std::is_const_v<Figures>) {
      visit(prefix + names[i], i < figures.size() ? figures[i] : std::numeric_limits<double>::quiet_NaN());
    } else {
      figures.resize(names.size());
      visit(prefix + names[i], figures[i]);
    }
  }
}

// Calls visit(key, field) for each key that every family has; const metrics give const fields.
template <typename Step, typename Visit>
requires std::is_same_v<std::remove_const_t<Step>, StepMetrics>
void for_each_core_key(Step& metrics, const MetricNames& names, Visit visit) {
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
}

template <typename Evaluation, typename Visit>
requires std::is_same_v<std::remove_const_t<Evaluation>, EvaluationMetrics>
void for_each_core_key(Evaluation& metrics, const MetricNames&, Visit visit) {
  visit(std::string("step"), metrics.step);
  visit(std::string("validation_loss"), metrics.validation_loss);
}

template <typename Step, typename Visit>
requires std::is_same_v<std::remove_const_t<Step>, StepMetrics>
void for_each_figure_of(Step& metrics, const MetricNames& names, Visit visit) {
  for_each_figure(metrics.figures, names.figures, "", visit);
}

template <typename Evaluation, typename Visit>
requires std::is_same_v<std::remove_const_t<Evaluation>, EvaluationMetrics>
void for_each_figure_of(Evaluation& metrics, const MetricNames& names, Visit visit) {
  for_each_figure(metrics.figures, names.evaluation_figures, "validation_", visit);
}

// The core keys and the figures.
template <typename Metrics, typename Visit>
void for_each_key(Metrics& metrics, const MetricNames& names, Visit visit) {
  for_each_core_key(metrics, names, visit);
  for_each_figure_of(metrics, names, visit);
}

}  // namespace terrace::observe
