// A results.csv as text: rows of as many cells as the first row has, which names the columns.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::search {

class ResultsTable {
 public:
  // `text` is what the file at `path` holds. Throws UserError with the line of a row that is torn: a row with another
  // number of cells than the first one, or with a misplaced quotation mark. `left_out` rows of the file below the first
  // one are not in the text.
  ResultsTable(const std::filesystem::path& path, std::string_view text, size_t left_out = 0);

  // The number of rows below the first.
  size_t size() const { return cells_.size(); }
  const std::vector<std::string>& columns() const { return columns_; }
  // "results.csv:7", for messages.
  std::string place(size_t row) const;

  // Leaves out the rows that are not wanted; places stay those of the file.
  void keep(const std::function<bool(size_t row)>& is_wanted);

  // Throws UserError if there is no such column.
  size_t column(const std::string& name) const;
  const std::string& cell(size_t row, size_t column) const { return cells_[row][column]; }
  // "" if there is no such column.
  std::string cell(size_t row, const std::string& name) const;

 private:
  std::string path_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> cells_;
  std::vector<size_t> lines_;  // of the rows in the file
};

}  // namespace terrace::search
