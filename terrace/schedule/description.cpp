// Finds the description of a configuration's model, and gives it the sizes of average samples.
#include "terrace/schedule/description.h"

#include <algorithm>
#include <cmath>

#include "terrace/base/error.h"
#include "terrace/config/family.h"

namespace terrace::schedule {

const Description& description_of(const config::Config& config) {
  TERRACE_CHECK(config.family != nullptr && config.family->description != nullptr, "no description of the model");
  return *config.family->description;
}

UnitTable unit_table(const config::Config& config, UnitTableOptions options) {
  const Description& description = description_of(config);
  if (options.sizes.empty()) {
    options.sizes = average_sizes(description.sample_sizes(config), static_cast<double>(options.samples));
  }
  return description.unit_table(config, options);
}

config::ContextRoute context_route(const config::Config& config) {
  const config::ContextRoute given = config.layout.context_route;
  return given != config::ContextRoute::automatic ? given : description_of(config).context_work(config).routes.front();
}

Sizes average_sizes(const SampleSizes& sizes, double samples) {
  Sizes sums;
  for (const auto& [name, average] : sizes.average) {
    const bool has_some = average > 0 && samples > 0;
    sums[name] = std::max<int64_t>(has_some ? 1 : 0, std::llround(samples * average));
  }
  return sums;
}

int64_t average_items(const config::Config& config, int64_t samples) {
  const SampleSizes sizes = description_of(config).sample_sizes(config);
  const auto items = sizes.average.find(config.family->items);
  return items == sizes.average.end() ? samples : std::llround(static_cast<double>(samples) * items->second);
}

}  // namespace terrace::schedule
