// Recognises keys of known features that this version does not have, so that they are refused for this reason and not
// as misspellings.
#pragma once

#include <string>
#include <string_view>

namespace terrace::config {

// Why the key is refused; "" for any other key.
std::string not_built(std::string_view section, std::string_view name);

}  // namespace terrace::config
