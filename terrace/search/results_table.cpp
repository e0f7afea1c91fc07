// Splits the text into rows and the rows into cells.
#include "terrace/search/results_table.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/text/csv.h"

namespace terrace::search {

ResultsTable::ResultsTable(const std::filesystem::path& path, std::string_view text, size_t left_out)
    : path_(path.string()) {
  size_t rows = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::optional<std::vector<std::string>> cells = csv_cells(line);
    ++rows;
    if (!cells) throw UserError::of("{}:{}: a quotation mark is misplaced; correct or remove the row", path_, rows);
    if (rows == 1) {
      columns_ = *cells;
      rows += left_out;
    } else if (cells->size() != columns_.size()) {
      throw UserError::of("{}:{}: has {} cells, but the first row {}; correct or remove the row", path_, rows,
                          cells->size(), columns_.size());
    } else {
      cells_.push_back(*cells);
      lines_.push_back(rows);
    }
  }
}

std::string ResultsTable::place(size_t row) const { return fmt::format("{}:{}", path_, lines_[row]); }

void ResultsTable::keep(const std::function<bool(size_t row)>& is_wanted) {
  size_t kept = 0;
  for (size_t row = 0; row < cells_.size(); ++row) {
    if (!is_wanted(row)) continue;
    if (kept != row) {
      cells_[kept] = std::move(cells_[row]);
      lines_[kept] = lines_[row];
    }
    ++kept;
  }
  cells_.resize(kept);
  lines_.resize(kept);
}

size_t ResultsTable::column(const std::string& name) const {
  const auto found = std::ranges::find(columns_, name);
  if (found == columns_.end()) throw UserError::of("{}: has no column {}", path_, name);
  return static_cast<size_t>(found - columns_.begin());
}

std::string ResultsTable::cell(size_t row, const std::string& name) const {
  const auto found = std::ranges::find(columns_, name);
  return found == columns_.end() ? "" : cells_[row][static_cast<size_t>(found - columns_.begin())];
}

}  // namespace terrace::search
