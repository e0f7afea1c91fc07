// Texts of a study in which a trial's values stand in braces, as in "./trial.sh {layout.tensor}".
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace terrace::search {

// The names in braces, each once, in the order of the text. Braces behind a dollar sign and braces around anything but
// a name are left alone, as a shell's.
std::vector<std::string> names_in_braces(const std::string& text);
// The text with value_of(NAME) in place of each {NAME}.
std::string filled(const std::string& text, const std::function<std::string(const std::string& name)>& value_of);

}  // namespace terrace::search
