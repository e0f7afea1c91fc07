// Makes the figures of the sums over samples.
#include "terrace/models/vit/settings/vit_figures.h"

#include <numeric>

#include "terrace/models/vit/settings/config.h"

namespace terrace::models::vit {
namespace {

double sum_of(const observe::TermSums& sums, Term term) {
  const std::vector<double>& values = sums.at(static_cast<size_t>(term)).values;
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

std::vector<observe::Figure> VitFigures::list(const config::Config& config) const {
  std::vector<observe::Figure> figures = {
      {.name = "skill", .better = observe::Better::higher, .value = [](const observe::TermSums& sums) {
         return 1 - sum_of(sums, Term::squares) / sum_of(sums, Term::persistence);
       }}};
  const std::vector<std::string>& outputs = model_of(config).outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = figure_name(outputs[i]);
    figures.push_back({.name = "rmse_" + name,
                       .unit = "deviations",
                       .in_steps = false,
                       .value = observe::mean_of(static_cast<size_t>(Term::rmse), i)});
    figures.push_back({.name = "bias_" + name,
                       .unit = "deviations",
                       .better = observe::Better::neither,
                       .in_steps = false,
                       .value = observe::mean_of(static_cast<size_t>(Term::bias), i)});
  }
  return figures;
}

// Lower-case letters and digits stay, all else becomes _.
std::string figure_name(const std::string& variable) {
  std::string name;
  for (const char c : variable) {
    const bool upper = c >= 'A' && c <= 'Z', kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    name += upper ? static_cast<char>(c - 'A' + 'a') : kept ? c : '_';
  }
  return name;
}

}  // namespace terrace::models::vit
