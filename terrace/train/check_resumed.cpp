// Compares what a checkpoint records of its run with the configuration and the data of a run that continues from it.
#include "terrace/train/check_resumed.h"

#include <string>

#include "terrace/base/error.h"

namespace terrace::train {

void check_resumed_config(const config::Config& config, const checkpoint::Reader& checkpoint) {
  config::check_resume(checkpoint.config({config.family}), config, checkpoint.step());
  if (checkpoint.step() <= config.train.steps) return;
  throw UserError::of("train.steps = {} is less than the {} steps that {} has done; give at least as many",
                      config.train.steps, checkpoint.step(), checkpoint.path().string());
}

void check_resumed_data(data::Source& data, Json& identity, const checkpoint::Reader& checkpoint) {
  const Json& saved = checkpoint.trainer().at("data");
  data.check_labels_of(saved, identity);
  data.follow_order_of(saved, identity);
  const std::string difference = data.difference(saved, identity, checkpoint.step());
  if (difference.empty()) return;
  throw UserError::of(
      "the data are not those that {} was trained with: {}. Restore the old files, or start a new run in another "
      "checkpoint.folder with train.initial_weights",
      checkpoint.path().string(), difference);
}

}  // namespace terrace::train
