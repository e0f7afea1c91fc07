// Puts arguments and keys side by side.
#include "terrace/translate/translation_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "terrace/base/text/json.h"

namespace terrace::translate {
namespace {

// Longer arguments, such as paths of data, do not move the column of the keys.
constexpr size_t most_width = 44;

void add_list(std::string& text, std::string_view heading, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  text += fmt::format("{}\n", heading);
  for (const std::string& line : lines) text += fmt::format("    {}\n", line);
}

void add_words(std::string& text, std::string_view heading, const std::vector<std::string>& words) {
  if (!words.empty()) text += fmt::format("{}\n    {}\n", heading, fmt::join(words, ", "));
}

std::vector<std::string> lines_of(const Translation& translation, bool of_defaults) {
  size_t width = 0;
  for (const Setting& setting : translation.settings) {
    if (setting.is_default == of_defaults) width = std::max(width, std::min(setting.argument.size(), most_width));
  }
  std::vector<std::string> lines;
  for (const Setting& setting : translation.settings) {
    if (setting.is_default != of_defaults) continue;
    lines.push_back(fmt::format("{:<{}}  {} = {}{}", setting.argument, width, setting.key, setting.value,
                                setting.is_replaced ? " (replaced by --set)" : ""));
  }
  return lines;
}

}  // namespace

std::string text_of(const Translation& translation) {
  std::string text;
  add_list(text, fmt::format("what {} is told, and its key here", translation.program), lines_of(translation, false));
  add_list(text, fmt::format("what {} does by itself", translation.program), lines_of(translation, true));
  std::vector<std::string> remarks;
  for (const Remark& remark : translation.no_twin) remarks.push_back(remark.argument + ": " + remark.about);
  add_list(text, "without a key here", remarks);
  add_list(text, "left out as asked for", translation.left_out);
  add_list(text, "assumed", translation.assumptions);
  add_words(text, "in agreement with the others", translation.agreeing);
  add_words(text, "without effect on time, memory and result", translation.without_effect);
  if (!translation.software.empty()) {
    text += fmt::format("planned as by {}: {}\n", translation.software, translation.why_software);
  }
  return text;
}

Json json_of(const Translation& translation) {
  Json settings = Json::array(), no_twin = Json::array();
  for (const Setting& setting : translation.settings) {
    settings.push_back({{"argument", setting.argument},
                        {"key", setting.key},
                        {"value", setting.value},
                        {"is_default", setting.is_default},
                        {"is_replaced", setting.is_replaced}});
  }
  for (const Remark& remark : translation.no_twin) {
    no_twin.push_back({{"argument", remark.argument}, {"planned", remark.about}});
  }
  return {{"program", translation.program},
          {"software", translation.software.empty() ? Json() : Json(translation.software)},
          {"settings", settings},
          {"no_twin", no_twin},
          {"agreeing", translation.agreeing},
          {"without_effect", translation.without_effect},
          {"unknown", translation.unknown},
          {"left_out", translation.left_out},
          {"assumptions", translation.assumptions}};
}

}  // namespace terrace::translate
