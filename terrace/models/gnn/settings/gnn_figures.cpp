// Makes the figures of the sums over the values of each output.
#include "terrace/models/gnn/settings/gnn_figures.h"

#include <cmath>
#include <vector>

#include "terrace/models/gnn/settings/config.h"

namespace terrace::models::gnn {

std::vector<observe::Figure> GnnFigures::list(const config::Config& config) const {
  const std::vector<OutputConfig>& outputs = model_of(config).outputs;
  std::vector<observe::Figure> figures;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputConfig& output = outputs[i];
    const size_t term = figures_term(outputs.size(), i);
    const std::string unit = output.per_atom ? "per atom" : "";
    figures.push_back({.name = "loss_" + output.name, .value = observe::mean_of(i)});
    figures.push_back({.name = "mae_" + output.name, .unit = unit, .value = observe::mean_of(term, 0)});
    figures.push_back(
        {.name = "rmse_" + output.name, .unit = unit, .in_steps = false, .value = observe::root_mean_of(term, 1)});
    figures.push_back({.name = observe::spread_prefix + output.name,
                       .better = observe::Better::neither,
                       .value = [term](const observe::TermSums& sums) {
                         const std::vector<double>& values = sums.at(term).values;
                         return values.at(3) > 0 ? values[2] / values[3] : std::nan("");
                       }});
  }
  return figures;
}

}  // namespace terrace::models::gnn
