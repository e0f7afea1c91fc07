// The page of an explanation without its data, which the build puts together (cmake/pages.cmake).
#pragma once

#include <span>
#include <string_view>

namespace terrace::search {

// The parts of the page, for observe::html_page().
std::span<const std::string_view> explain_template();

}  // namespace terrace::search
