// The description with the means and deviations by which the fields of a run are normalised.
#pragma once

#include <string>

#include "terrace/data/fields/fields_config.h"
#include "terrace/data/fields/fields_description.h"

namespace terrace::data {

// The file that data.statistics names, or else the description of the dataset.
std::string statistics_path(const FieldsConfig& config);

// That of the file; where the run began with the weights of a checkpoint, with the means and deviations of variables
// and constants that it knows (FieldsConfig::kept_statistics). Throws UserError where these are of other units.
FieldsDescription statistics_of(const FieldsConfig& config);

}  // namespace terrace::data
