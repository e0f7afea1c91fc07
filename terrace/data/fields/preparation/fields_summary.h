// Tells in words and as JSON what is in a dataset of fields, and checks whether its arrays are whole.
#pragma once

#include <string>

#include "terrace/data/fields/fields_dataset.h"
#include "terrace/data/preparation.h"

namespace terrace::data {

// Tells times, parts, grid, variables and constants with units, means and deviations.
PrepareResult summary_of_fields(const FieldsDescription& description, const std::string& prefix);

// Throws UserError that names the first array whose checksum is not that of the description. Reads the whole file.
void check_checksums(const FieldsDataset& dataset);

}  // namespace terrace::data
