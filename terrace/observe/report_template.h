// The page of a report without its data, which the build puts together (cmake/pages.cmake).
#pragma once

#include <span>
#include <string_view>

namespace terrace::observe {

// The parts of the page, for html_page().
std::span<const std::string_view> report_template();

}  // namespace terrace::observe
