// The texts of a Parquet file, row by row, from the column that is named like a field of JSON.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "terrace/data/parquet/reader.h"

namespace terrace::data {

// Memory is that of a page of the column and its dictionary, however large the file and its row groups are. Arrow's
// library is loaded with the first file, not when the program starts: it takes longer to load than the rest of the
// program.
class ParquetTexts {
 public:
  // The column `field` is "text", or "meta.text" for the field text of the struct meta. Throws UserError that names the
  // file where it is no Parquet file, is damaged or cut off, where the column does not exist or holds no strings (with
  // the columns that there are), and where this build of terrace reads no Parquet.
  ParquetTexts(const std::filesystem::path& path, const std::string& field);

  // Returns the next row, valid until the next call; nothing behind the last one. Throws UserError for a damaged file.
  std::optional<ParquetText> next();

  bool done() const { return taken_ == reader_->rows(); }
  double share_read() const;  // of the rows, 0 to 1

 private:
  void read_rows();

  std::string name_;
  std::unique_ptr<ParquetReader> reader_;
  const std::vector<ParquetText>* rows_ = nullptr;  // of the page that is read
  size_t at_ = 0;                                   // the next one of these rows
  int64_t taken_ = 0;                               // rows of the file
};

}  // namespace terrace::data
