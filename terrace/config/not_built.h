// What design and users know by name but this version does not do: refused with that reason, not as a misspelling.
#pragma once

#include <string>
#include <string_view>

namespace terrace::config {

// Why the key is refused, "" for any other key.
std::string not_built(std::string_view section, std::string_view name);

}  // namespace terrace::config
