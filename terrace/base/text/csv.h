// Cells and rows of CSV files as RFC 4180 has them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace terrace {

// The text as one cell: in quotation marks if it holds a character that separates.
std::string csv_cell(std::string_view text);

// The cells of one row, which has no line break at its end; nullopt if a quotation mark is not closed or stands inside
// a cell that does not begin with one.
std::optional<std::vector<std::string>> csv_cells(std::string_view row);

}  // namespace terrace
