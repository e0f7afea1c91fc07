// Makes figures of sums.
#include "terrace/observe/figures.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/config/family.h"

namespace terrace::observe {

const char* name_of(Better better) {
  return better == Better::lower ? "lower" : better == Better::higher ? "higher" : "neither";
}

std::function<double(const TermSums&)> mean_of(size_t term, size_t index) {
  return [=](const TermSums& sums) { return sums.at(term).values.at(index) / sums.at(term).count; };
}

std::function<double(const TermSums&)> root_mean_of(size_t term, size_t index) {
  return [mean = mean_of(term, index)](const TermSums& sums) { return std::sqrt(mean(sums)); };
}

std::function<double(const TermSums&)> quotient_of(size_t term, size_t divisor, size_t index) {
  return [=](const TermSums& sums) { return sums.at(term).values.at(index) / sums.at(divisor).values.at(index); };
}

std::function<double(const TermSums&)> number_of(size_t term, size_t index) {
  return [=](const TermSums& sums) { return sums.at(term).values.at(index); };
}

std::string output_of_spread(const std::string& figure) {
  const std::string_view prefix = spread_prefix;
  return figure.starts_with(prefix) ? figure.substr(prefix.size()) : "";
}

std::string dead_output_text(const std::string& output) {
  return fmt::format(
      "the output {} has the same value for all inputs although its labels differ: the network is dead, as where all "
      "units of a layer with ReLU are 0, and hardly ever learns it then; begin again with another train.seed, a lower "
      "optimizer.learning_rate, optimizer.warmup_steps or another model.activation",
      output);
}

const Figures& figures_of(const config::Config& config) {
  TERRACE_CHECK(config.family != nullptr && config.family->figures != nullptr, "no figures of the model");
  return *config.family->figures;
}

std::vector<double> values_of(const std::vector<Figure>& figures, const TermSums& sums, bool of_step) {
  std::vector<double> values;
  for (const Figure& figure : figures) {
    if (of_step ? figure.in_steps : figure.in_evaluations) values.push_back(figure.value(sums));
  }
  return values;
}

}  // namespace terrace::observe
