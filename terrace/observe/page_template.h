// The page of a report without its data, which cmake/report.cmake puts together from the files of report/.
#pragma once

#include <span>
#include <string_view>

namespace terrace::observe {

// To be joined. Where the title belongs stands {{title}}, and behind it, where the data belong, {{data}}.
std::span<const std::string_view> page_template();

}  // namespace terrace::observe
