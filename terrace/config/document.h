// Writes the keys as Markdown tables, for docs/configuration.md.
#pragma once

#include <string>

#include "terrace/config/config.h"

namespace terrace::config {

// One heading and one table for each section, from the list of keys; if families have keys of their own in a section,
// one heading and one table for each of these families.
std::string document(const Families& families);

}  // namespace terrace::config
