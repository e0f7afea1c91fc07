// Writes the keys as Markdown tables.
#include "terrace/config/document.h"

#include "terrace/base/error.h"
#include "terrace/config/family.h"
#include "terrace/config/phases.h"

namespace terrace::config {
namespace {

std::string_view on_resume(OnResume rule) {
  switch (rule) {
    case OnResume::may_change:
      return "may change";
    case OnResume::fixed:
      return "fixed";
    case OnResume::names_fixed:
      return "folder may change";
  }
  return "";
}

// A table of those `keys` that belong to the section; "" if there are none.
std::string table(const std::vector<Key>& keys, const std::string& section, const Config& defaults) {
  std::string text;
  for (const Key& key : keys) {
    if (key.section != section) continue;
    const std::string value = key.required() ? "required" : fmt::format("`{}`", key.write(defaults));
    text +=
        fmt::format("| `{}` | {} | {} | {} | {} |\n", key.name, key.values, value, on_resume(key.on_resume), key.about);
  }
  if (text.empty()) return "";
  return "| key | value | default | on resume | meaning |\n| --- | --- | --- | --- | --- |\n" + text;
}

// The keys of each table of a list.
std::string table_of_list(const Key& list) {
  std::string text = "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const TableKey& key : list.table_keys) {
    const std::string value = key.required() ? "required" : fmt::format("`{}`", key.default_value);
    text += fmt::format("| `{}` | {} | {} | {} |\n", key.name, key.values, value, key.about);
  }
  return text;
}

// The keys of a phase.
std::string phase_table(const Family& family) {
  std::string text =
      "| key | value | default | on resume | meaning |\n| --- | --- | --- | --- | --- |\n"
      "| `from_step` | a whole number of at least 1 | required | fixed once the phase has begun | The first step of "
      "the "
      "phase; above that of the phase before, below `train.steps`. |\n";
  for (const Key& key : phase_keys_of(family)) {
    text += fmt::format("| `{}` | {} | that of the phase before | {} | As `{}`, from this step on. |\n", key.name,
                        key.values,
                        key.on_resume == OnResume::names_fixed ? "folder may change once the phase has begun"
                                                               : "fixed once the phase has begun",
                        key.full_name());
  }
  return text;
}

}  // namespace

std::string document(const Families& families) {
  std::string text;
  const auto add = [&](const std::string& heading, const std::string& rows) {
    if (!rows.empty()) text += fmt::format("{}### {}\n\n{}", text.empty() ? "" : "\n", heading, rows);
  };
  const Config defaults;
  for (const std::string& section : section_names()) {
    const bool varies = is_family_section(section);
    for (const Family* family : families) {
      const std::vector<Key> keys = varies ? keys_of(family) : family->settings.keys;
      add(fmt::format("[{}] with family = \"{}\"", section, family->name), table(keys, section, config_of(*family)));
      for (const Key& key : keys) {
        if (key.section != section || key.table_keys.empty()) continue;
        add(fmt::format("[[{}]] with family = \"{}\"", key.full_name(), family->name), table_of_list(key));
      }
    }
    if (section == "data") {
      for (const Family* family : families) {
        add(fmt::format("[[{}]] with family = \"{}\"", phases_key, family->name), phase_table(*family));
      }
    }
    if (!varies) add(fmt::format("[{}]", section), table(keys_of(nullptr), section, defaults));
  }
  return text;
}

}  // namespace terrace::config
