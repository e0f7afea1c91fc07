// Finds descriptions by the names of files and of built-in descriptions.
#include "terrace/machine/built_in.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/spelling.h"
#include "terrace/config/domain.h"
#include "terrace/machine/machine.h"
#include "terrace/machine/software.h"

namespace terrace::machine {

std::vector<std::string> names_of(std::span<const BuiltIn> built_in) {
  std::vector<std::string> names;
  for (const BuiltIn& one : built_in) names.emplace_back(one.name);
  return names;
}

DescriptionFile find_description(const std::string& file_or_name, std::span<const BuiltIn> built_in,
                                 std::string_view kind) {
  if (file_or_name.ends_with(".toml") || file_or_name.find('/') != std::string::npos) {
    return {read_text(file_or_name), file_or_name};
  }
  const auto found = std::ranges::find(built_in, std::string_view(file_or_name), &BuiltIn::name);
  if (found != built_in.end()) return {std::string(found->toml), std::string(found->file)};
  const std::vector<std::string> names = names_of(built_in);
  const std::string nearest = nearest_word(file_or_name, names);
  throw UserError::of("there is no {} \"{}\"{} {}, and a description of your own is a file whose name ends in .toml",
                      kind, file_or_name, nearest.empty() ? "; there are" : "; did you mean " + nearest + "? There are",
                      config::listed(names, "and"));
}

Machine load(const std::string& file_or_name) {
  const DescriptionFile description = find_description(file_or_name, built_in_machines(), "machine");
  return parse(description.toml, description.file_name);
}

std::vector<std::string> names() { return names_of(built_in_machines()); }

Software load_software(const std::string& file_or_name) {
  const DescriptionFile description = find_description(file_or_name, built_in_software(), "software");
  return parse_software(description.toml, description.file_name);
}

std::vector<std::string> software_names() { return names_of(built_in_software()); }

}  // namespace terrace::machine
