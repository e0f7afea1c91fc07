// The flags of terrace data prepare --kind fields.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "terrace/data/fields/fields_description.h"
#include "terrace/data/fields/preparation/fields_plan.h"
#include "terrace/data/preparation.h"

namespace terrace::data {

struct FieldsFlags {
  FieldsSelection selection = {};
  ClimatologyKind climatology = ClimatologyKind::monthly;
  std::optional<int64_t> harmonics = {};
  bool mask = false;
};

// Returns the names of the flags and what they mean.
std::vector<PrepareFlag> flags_of_fields();

// Reads the values of the flags. Throws UserError for values that have no meaning.
FieldsFlags fields_flags(const PrepareRequest& request);

}  // namespace terrace::data
