// Quotes and splits the cells of CSV files.
#include "terrace/base/text/csv.h"

#include <algorithm>

namespace terrace {

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? "\"\"" : std::string(1, c);
  return cell + "\"";
}

std::optional<std::vector<std::string>> csv_cells(std::string_view row) {
  std::vector<std::string> cells(1);
  size_t at = 0;
  while (true) {
    if (at < row.size() && row[at] == '"') {
      for (++at;; ++at) {
        if (at == row.size()) return std::nullopt;
        if (row[at] != '"') {
          cells.back() += row[at];
        } else if (at + 1 < row.size() && row[at + 1] == '"') {
          cells.back() += row[at++];
        } else {
          break;
        }
      }
      ++at;
    } else {
      const size_t end = std::min(row.find(',', at), row.size());
      cells.back() = row.substr(at, end - at);
      if (cells.back().find('"') != std::string::npos) return std::nullopt;
      at = end;
    }
    if (at == row.size()) return cells;
    if (row[at++] != ',') return std::nullopt;
    cells.emplace_back();
  }
}

}  // namespace terrace
