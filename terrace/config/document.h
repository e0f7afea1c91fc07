// The keys as Markdown tables, for docs/configuration.md.
#pragma once

#include <string>

namespace terrace::config {

// One heading and one table for each section, from the list of keys.
std::string document();

}  // namespace terrace::config
