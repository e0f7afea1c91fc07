// Units of variables as files write them, in one form: "m**2 s**-2", "m^2/s^2" and "m2 s-2" are the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace terrace::data {

// Returns the units in the form "m2 s-2", "1" for none; no value where they are not known. Upper and lower case differ
// only where a symbol of the other case is known too. Units that are no product of the usual symbols have the form in
// which udunits defines them, "0.001 1" for "1e-3". Nothing is converted: "hPa" and "Pa" are different.
std::optional<std::string> canonical_units(std::string_view text);

// Returns whether both are known and mean the same: "g/kg" and "1e-3", where udunits is built in.
bool are_same_units(std::string_view a, std::string_view b);

bool are_degrees_north(std::string_view units);
bool are_degrees_east(std::string_view units);
// Returns how many hPa a unit is; no value where it is no unit of pressure.
std::optional<double> hectopascals(std::string_view units);

}  // namespace terrace::data
