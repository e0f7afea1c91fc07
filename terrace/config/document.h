// The keys as Markdown tables, for docs/configuration.md.
#pragma once

#include <string>

#include "terrace/config/config.h"

namespace terrace::config {

// One heading and one table for each section, from the list of keys; in a section of which families have keys of their
// own, one for each family.
std::string document(const Families& families);

}  // namespace terrace::config
