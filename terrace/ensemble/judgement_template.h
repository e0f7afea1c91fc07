// The page of judged predictions without its data, which the build puts together (cmake/pages.cmake).
#pragma once

#include <span>
#include <string_view>

namespace terrace::ensemble {

// The parts of the page, for observe::html_page().
std::span<const std::string_view> judgement_template();

}  // namespace terrace::ensemble
