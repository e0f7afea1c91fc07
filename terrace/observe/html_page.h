// One HTML file with its data, style and scripts, which opens in a browser without a network or a server.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "terrace/base/text/json.h"

namespace terrace::observe {

// `pieces`, joined, are a page that terrace_page() of cmake/pages.cmake puts together from page/ and the scripts of one
// kind of page. The title stands where {{title}} is and the data, for the page's scripts, behind it where {{data}} is.
// Bytes that are not UTF-8 are replaced, and numbers that are not finite become null.
std::string html_page(std::span<const std::string_view> pieces, const std::string& title, const Json& data);

}  // namespace terrace::observe
