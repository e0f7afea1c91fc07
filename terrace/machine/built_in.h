// The descriptions that the program contains: the files of machines/ and machines/software/ when it was built.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::machine {

struct BuiltIn {
  std::string_view name;  // "frontier"
  std::string_view file;  // "machines/frontier.toml"
  std::string_view toml;
};

// The built-in descriptions in alphabetical order. cmake/machines.cmake writes the file that defines them.
std::span<const BuiltIn> built_in_machines();
std::span<const BuiltIn> built_in_software();

struct DescriptionFile {
  std::string toml, file_name;
};

// The contents of a file, which a name with a slash or the ending ".toml" means, or of the built-in description of this
// name. Throws UserError if there is none; `kind` says what was looked for: "machine".
DescriptionFile find_description(const std::string& file_or_name, std::span<const BuiltIn> built_in,
                                 std::string_view kind);

std::vector<std::string> names_of(std::span<const BuiltIn> built_in);

}  // namespace terrace::machine
