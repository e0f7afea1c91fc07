// Knows no definitions of units in builds without udunits2.
#include "terrace/data/fields/unit_definitions.h"

namespace terrace::data {

std::optional<std::string> unit_definition(const std::string&) { return std::nullopt; }

}  // namespace terrace::data
