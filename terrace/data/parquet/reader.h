// The interface between the program and its module that reads Parquet with Arrow's C++ library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::data {

struct ParquetColumn {
  std::string name;      // with the structs around it: "meta.text"
  std::string type;      // "string", "int64"
  bool is_text = false;  // strings, or bytes without a declared meaning
  bool is_list = false;  // any number of values a row
};

// A row of the selected column; the bytes stay where they are until the next call of next().
struct ParquetText {
  std::string_view text;
  bool is_null = false;  // also where a struct around the column is null
};

// Reads one column of a file, row group by row group, a page at a time. All functions throw std::exception for files
// that are damaged or cut off.
class ParquetReader {
 public:
  virtual ~ParquetReader() = default;

  virtual const std::vector<ParquetColumn>& columns() const = 0;
  virtual int64_t rows() const = 0;  // of the whole file

  // Call once, before next(), with the number of a column that is text and no list.
  virtual void select(size_t column) = 0;
  // Returns at least one of the rows that follow; none at the end of the file. The result is valid until the next call.
  virtual const std::vector<ParquetText>& next() = 0;
};

}  // namespace terrace::data

// The module's only function. The name has the version of the interface, so that a module of another build is not
// taken.
extern "C" __attribute__((visibility("default"))) terrace::data::ParquetReader* terrace_open_parquet_1(
    const char* path);
