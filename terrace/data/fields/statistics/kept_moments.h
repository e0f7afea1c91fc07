// The description with the means and deviations by which the fields of a run are normalised.
#pragma once

#include <string>

#include "terrace/data/fields/fields_config.h"
#include "terrace/data/fields/fields_description.h"

namespace terrace::data {

// Returns the file that data.statistics names, or else the description of the dataset.
std::string statistics_path(const FieldsConfig& config);

// Returns the description in the file of statistics_path(). Where the run began with the weights of a checkpoint,
// variables and constants that the checkpoint knows have its means and deviations (FieldsConfig::kept_statistics).
// Throws UserError where these are of other units.
FieldsDescription statistics_of(const FieldsConfig& config);

}  // namespace terrace::data
