// The keys as Markdown tables.
#include "terrace/config/document.h"

#include "terrace/base/error.h"
#include "terrace/config/key.h"

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

}  // namespace

std::string document() {
  const Config defaults;
  std::string text, section;
  for (const Key& key : keys()) {
    if (key.section != section) {
      text += fmt::format(
          "{}### [{}]\n\n| key | value | default | on resume | meaning |\n| --- | --- | --- | --- | --- |\n",
          text.empty() ? "" : "\n", key.section);
      section = key.section;
    }
    const std::string value = key.required() ? "required" : fmt::format("`{}`", key.write(defaults));
    text +=
        fmt::format("| `{}` | {} | {} | {} | {} |\n", key.name, key.values, value, on_resume(key.on_resume), key.about);
  }
  return text;
}

}  // namespace terrace::config
