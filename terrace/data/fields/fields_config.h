// [data] of a model of fields on latitudes and longitudes: its struct, its keys and their rules.
#pragma once

#include <string>
#include <vector>

#include "terrace/base/files/attached_file.h"
#include "terrace/config/config.h"
#include "terrace/config/idle.h"
#include "terrace/config/key.h"
#include "terrace/config/rules.h"
#include "terrace/data/order/order_config.h"
#include "terrace/data/staging/stage_config.h"

namespace terrace::data {

struct FieldsConfig {
  std::string fields = {};  // the prefix P of a prepared dataset, see fields_description.h
  // The file of the description with the means and deviations; "": the description of the dataset with the moments of
  // `kept_statistics`; "data": the description of the dataset alone (kept_statistics.h).
  std::string statistics = {};
  // The description of the checkpoint with whose weights the run began; "": none. This is not a key.
  std::string kept_statistics = {};
  std::string climatology = {};               // the prefix of the dataset with the climatology; "": the dataset itself
  std::vector<double> leads = {6.0 * 3600};   // seconds from the last input to the field that is predicted
  int64_t inputs = 1;                         // times of which a sample has the fields
  double input_step = 0;                      // seconds between these times; 0: the step of the data
  std::vector<std::string> constants = {};    // fields of the dataset that do not change, as further inputs
  std::string held_out_split = "validation";  // the part of the times on which a model is evaluated
  bool turned = false;                        // whether training samples are turned about the poles at random
  OrderConfig order = {};
  StageConfig stage = {};
  bool operator==(const FieldsConfig&) const = default;
};

// [data] of a configuration whose family reads fields; aborts where it does not.
inline FieldsConfig& fields_of(config::Config& config) { return config.data.get<FieldsConfig>(); }
inline const FieldsConfig& fields_of(const config::Config& config) { return config.data.get<FieldsConfig>(); }

std::vector<config::Key> fields_keys();
std::vector<config::Rule> fields_rules();
std::vector<config::IdleRule> fields_idle_rules();

// Makes a dataset the only data, to be evaluated on its test part, or its validation part where it has no other, with
// the statistics that a checkpoint keeps and the climatology of the training data. Throws UserError unless there is one
// dataset.
void hold_out_fields(FieldsConfig& config, const std::vector<std::string>& datasets, const AttachedPaths& attached);

// Takes the copy of the statistics that a checkpoint keeps.
void take_attached_statistics(FieldsConfig& config, const AttachedPaths& attached);
// Takes the copy of the statistics for a run that begins with the checkpoint's weights, unless data.statistics says
// otherwise: variables that the checkpoint does not know have the means and deviations of the dataset. Returns a
// sentence about what was taken for the log; "" where nothing was.
std::string keep_field_statistics(FieldsConfig& config, const AttachedPaths& attached);

}  // namespace terrace::data
