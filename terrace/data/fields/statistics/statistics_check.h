// Compares prepared fields with those that a model was trained with.
#pragma once

#include "terrace/data/fields/fields_source.h"

namespace terrace::data {

// The description of a checkpoint's statistics tells grid, units and step of the data of its run. Throws UserError
// where those of the fields are others: coordinates of a grid of equal size, units of an input or output, and, with
// several inputs whose distance is the step of the data, the step.
void check_against_statistics(const FieldsSource& source);

}  // namespace terrace::data
