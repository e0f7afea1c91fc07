// Makes the perplexity from the sum of the tokens' losses, and figures of experts from their loads.
#include "terrace/models/gpt/settings/gpt_figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "terrace/models/gpt/settings/config.h"

namespace terrace::models::gpt {
namespace {

constexpr size_t loads_term = 1, losses_term = 2;  // behind the loss

// `loads` are those of one layer after the other.
double largest_load(const std::vector<double>& loads, int64_t experts) {
  double largest = 0;
  for (auto layer = loads.begin(); layer != loads.end(); layer += experts) {
    const double mean = std::accumulate(layer, layer + experts, 0.0) / static_cast<double>(experts);
    if (mean > 0) largest = std::max(largest, *std::max_element(layer, layer + experts) / mean);
  }
  return largest;
}

observe::Figure of_router(const char* name, size_t index, int64_t layers) {
  return {.name = name, .in_evaluations = false, .value = [index, layers](const observe::TermSums& sums) {
            return observe::mean_of(losses_term, index)(sums) / static_cast<double>(layers);
          }};
}

}  // namespace

std::vector<observe::Figure> GptFigures::list(const config::Config& config) const {
  const auto mean = observe::mean_of(0);
  std::vector<observe::Figure> figures = {
      {.name = "perplexity", .in_steps = false, .value = [mean](const observe::TermSums& sums) {
         return std::exp(mean(sums));
       }}};
  const ModelConfig& model = model_of(config);
  const ExpertsConfig& experts = model.experts;
  if (experts.number == 0) return figures;
  figures.push_back({.name = "expert_load",
                     .unit = "of an even load",
                     .in_evaluations = false,
                     .value = [number = experts.number](const observe::TermSums& sums) {
                       return largest_load(sums.at(loads_term).values, number);
                     }});
  if (experts.balance_loss > 0) figures.push_back(of_router("balance_loss", 0, model.sparse_layers()));
  if (experts.z_loss > 0) figures.push_back(of_router("router_z", 1, model.sparse_layers()));
  return figures;
}

}  // namespace terrace::models::gpt
