// Tells what units mean, by the library udunits2 where it is built in.
#pragma once

#include <optional>
#include <string>

namespace terrace::data {

// Returns the definition in units of the SI, such as "100 m-1.kg.s-2" for "hPa", of a text in UTF-8. No value for what
// udunits does not know, and for everything where the program is built without udunits or its tables are not installed.
std::optional<std::string> unit_definition(const std::string& units);

}  // namespace terrace::data
