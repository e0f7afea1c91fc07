// Makes the perplexity from the sum of the tokens' losses.
#include "terrace/models/gpt/settings/gpt_figures.h"

#include <cmath>

namespace terrace::models::gpt {

std::vector<observe::Figure> GptFigures::list(const config::Config&) const {
  const auto mean = observe::mean_of(0);
  return {{.name = "perplexity", .in_steps = false, .value = [mean](const observe::TermSums& sums) {
             return std::exp(mean(sums));
           }}};
}

}  // namespace terrace::models::gpt
