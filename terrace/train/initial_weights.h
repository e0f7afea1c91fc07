// Takes for a new run, from the checkpoint of another model that train.initial_weights names, the weights and the
// statistics by which that model's data were normalised.
#pragma once

#include <string>
#include <vector>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/config/config.h"
#include "terrace/models/weight_map.h"

namespace terrace::train {

class InitialWeights {
 public:
  // Asks the configuration's family. Throws UserError with every tensor that does not fit the model.
  InitialWeights(const config::Config& config, const checkpoint::Reader& checkpoint);

  // "2 tensors computed: a, b; 1 tensor at its initial values: c; 1 tensor of the checkpoint dropped: d"; "" if all
  // tensors are taken as they are.
  std::string text() const;

  // Fills a rank's tensors of the collections "weights" and "buffers", apart from those that keep their initial values.
  // Whole tensors are read only if the rank holds elements that are computed from them.
  void read(const checkpoint::Reader& checkpoint, const std::vector<checkpoint::Collection>& collections) const;

 private:
  models::WeightMap map_;
  std::map<std::string, models::Shapes> stored_;  // by collection
  std::set<std::string> left_out_;                // stored tensors that are not taken as they are
};

// The configuration of a run that began with train.initial_weights, with the statistics of that checkpoint, unless
// data.statistics says otherwise; a run that continues from `resumed` (null: a new one) has those that it began with.
// The configuration of other runs is left as it is. A new run writes a sentence about it into the log if `says`.
config::Config with_initial_statistics(const config::Config& config, const checkpoint::Reader* resumed, bool says);

}  // namespace terrace::train
