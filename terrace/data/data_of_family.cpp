// Finds the part of a configuration's family that knows its data.
#include "terrace/data/data_of_family.h"

#include <numeric>

#include "terrace/base/error.h"
#include "terrace/config/family.h"

namespace terrace::data {

void DataOfFamily::choose_held_out(config::Config& config, const HeldOutChoice& choice) const {
  if (choice.stride == 0) return;
  throw UserError::of(
      "models of model.family = \"{}\" are evaluated on samples that do not overlap; leave --stride out",
      config.family->name);
}

void DataOfFamily::cut_positions(MicroBatch&, const ContextPlaces&, int64_t) const {
  TERRACE_CHECK(false, "samples that have no positions to cut");
}

std::vector<int64_t> consecutive_samples(int64_t first, int64_t count) {
  std::vector<int64_t> samples(static_cast<size_t>(count));
  std::iota(samples.begin(), samples.end(), first);
  return samples;
}

const DataOfFamily& data_of_family(const config::Config& config) {
  TERRACE_CHECK(config.family != nullptr && config.family->data != nullptr, "no data of the model");
  return *config.family->data;
}

}  // namespace terrace::data
