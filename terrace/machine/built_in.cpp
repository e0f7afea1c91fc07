// Finds descriptions by the names of files and of built-in descriptions.
#include "terrace/machine/built_in.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/lower_case.h"
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

namespace {

template <typename Description>
std::string longest_word_in(const std::string& text, const std::vector<Description>& descriptions) {
  const std::string lower = lower_case(text);
  std::string found;
  size_t longest = 0;
  for (const Description& one : descriptions) {
    if (lower == one.name) return one.name;
    for (const std::string& word : one.known_as) {
      if (word.size() <= longest || lower.find(lower_case(word)) == std::string::npos) continue;
      longest = word.size();
      found = one.name;
    }
  }
  return found;
}

template <typename Description>
std::vector<Description> all_of(const std::vector<std::string>& names, Description load_one(const std::string&)) {
  std::vector<Description> all;
  for (const std::string& name : names) all.push_back(load_one(name));
  return all;
}

}  // namespace

std::string named_in(const std::string& text) {
  static const std::vector<Machine> machines = all_of(names(), load);
  return longest_word_in(text, machines);
}

std::string software_named_in(const std::string& text) {
  static const std::vector<Software> programs = all_of(software_names(), load_software);
  return longest_word_in(text, programs);
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
