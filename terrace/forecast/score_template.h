// The page of scores without its data, which the build puts together (cmake/pages.cmake).
#pragma once

#include <span>
#include <string_view>

namespace terrace::forecast {

// Returns the template that observe::html_page() fills.
std::span<const std::string_view> score_template();

}  // namespace terrace::forecast
