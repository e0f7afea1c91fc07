// Describes a narrowed model with the costs of the wide one, by which units are divided among pipeline stages.
#pragma once

#include <vector>

#include "terrace/schedule/description.h"

namespace terrace::rehearse {

class NarrowedDescription : public schedule::Description {
 public:
  // `of_family` outlives this object. `wide` is the unit table of the model before it was narrowed.
  NarrowedDescription(const schedule::Description& of_family, const schedule::UnitTable& wide);

  // The narrowed model's table, with the forward FLOPs of the wide one. Aborts if they have different units.
  schedule::UnitTable unit_table(const config::Config& config,
                                 const schedule::UnitTableOptions& options) const override;
  schedule::SampleSizes sample_sizes(const config::Config& config) const override {
    return of_family_.sample_sizes(config);
  }
  std::string why_one_micro_batch(const config::Config& config) const override {
    return of_family_.why_one_micro_batch(config);
  }

 private:
  const schedule::Description& of_family_;
  std::vector<double> forward_flops_;  // by unit
};

}  // namespace terrace::rehearse
