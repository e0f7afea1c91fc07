// Puts title and data into a page so that neither can end the element that it stands in.
#include "terrace/observe/html_page.h"

#include "terrace/base/error.h"

namespace terrace::observe {
namespace {

// HTML ends a script at "</script", and counts "<!--" and "<script" in it too. In JSON "<" stands in strings alone.
std::string in_script(const Json& data) {
  const std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string in_html(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string html_page(std::span<const std::string_view> pieces, const std::string& title, const Json& data) {
  constexpr std::string_view title_mark = "{{title}}", data_mark = "{{data}}";
  std::string text;
  for (const std::string_view piece : pieces) text += piece;
  const size_t at_title = text.find(title_mark), at_data = text.find(data_mark);
  TERRACE_CHECK(at_title < at_data && at_data != std::string::npos,
                "page.html has no {{{{title}}}} before {{{{data}}}}");
  const size_t behind_title = at_title + title_mark.size(), behind_data = at_data + data_mark.size();
  return text.substr(0, at_title) + in_html(title) + text.substr(behind_title, at_data - behind_title) +
         in_script(data) + text.substr(behind_data);
}

}  // namespace terrace::observe
