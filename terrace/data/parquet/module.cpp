// Reads Parquet with Arrow's C++ library. This is a module of its own (cmake/parquet.cmake), which sees nothing else of
// terrace.
#include <arrow/memory_pool.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>
#include <parquet/types.h>

#include <array>

#include "terrace/data/parquet/reader.h"

namespace terrace::data {
namespace {

constexpr int64_t rows_at_once = 512;

parquet::ReaderProperties properties() {
  // Arrow's own allocators would keep memory that they have once had.
  parquet::ReaderProperties properties(arrow::system_memory_pool());
  // Otherwise the compressed column of a whole row group is read at once.
  properties.enable_buffered_stream();
  properties.set_buffer_size(int64_t{1} << 18);
  properties.set_page_checksum_verification(true);
  return properties;
}

bool holds_text(const parquet::ColumnDescriptor& column) {
  if (column.physical_type() != parquet::Type::BYTE_ARRAY) return false;
  const auto& type = *column.logical_type();
  return type.is_none() || type.is_string() || type.is_JSON() || type.is_enum();
}

std::string type_name(const parquet::ColumnDescriptor& column) {
  const auto& type = *column.logical_type();
  if (type.is_string()) return "string";
  if (!type.is_none() && !type.is_invalid()) return type.ToString();
  switch (column.physical_type()) {
    case parquet::Type::BYTE_ARRAY:
      return "bytes";
    case parquet::Type::BOOLEAN:
      return "bool";
    case parquet::Type::INT32:
      return "int32";
    case parquet::Type::INT64:
      return "int64";
    case parquet::Type::FLOAT:
      return "float";
    case parquet::Type::DOUBLE:
      return "double";
    default:
      return parquet::TypeToString(column.physical_type());
  }
}

class ArrowReader : public ParquetReader {
 public:
  explicit ArrowReader(const std::string& path)
      : file_(parquet::ParquetFileReader::OpenFile(path, /*memory_map=*/false, properties())) {
    const parquet::SchemaDescriptor& schema = *file_->metadata()->schema();
    for (int i = 0; i < schema.num_columns(); ++i) {
      const parquet::ColumnDescriptor& column = *schema.Column(i);
      columns_.push_back(
          {column.path()->ToDotString(), type_name(column), holds_text(column), column.max_repetition_level() > 0});
    }
  }

  const std::vector<ParquetColumn>& columns() const override { return columns_; }
  int64_t rows() const override { return file_->metadata()->num_rows(); }

  void select(size_t column) override {
    column_ = static_cast<int>(column);
    whole_level_ = file_->metadata()->schema()->Column(column_)->max_definition_level();
  }

  const std::vector<ParquetText>& next() override {
    texts_.clear();
    while (left_ == 0) {
      if (group_ == file_->metadata()->num_row_groups()) return texts_;
      open_group();
    }
    if (!reader_->HasNext()) throw parquet::ParquetException("a row group ends before its last row");
    int64_t stored = 0;  // of the rows: those that are not null
    const int64_t rows =
        reader_->ReadBatch(std::min(rows_at_once, left_), levels_.data(), nullptr, values_.data(), &stored);
    if (rows == 0) throw parquet::ParquetException("a row group ends before its last row");
    left_ -= rows;
    size_t value = 0;
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
      // Without nulls in the schema no levels are written.
      const bool is_null = whole_level_ > 0 && levels_[row] < whole_level_;
      if (is_null) {
        texts_.push_back({{}, true});
        continue;
      }
      if (value == static_cast<size_t>(stored)) throw parquet::ParquetException("a page has fewer values than rows");
      const parquet::ByteArray& bytes = values_[value++];
      texts_.push_back({{reinterpret_cast<const char*>(bytes.ptr), bytes.len}, false});
    }
    return texts_;
  }

 private:
  void open_group() {
    group_reader_ = file_->RowGroup(group_);
    left_ = group_reader_->metadata()->num_rows();
    reader_ = std::static_pointer_cast<parquet::ByteArrayReader>(group_reader_->Column(column_));
    ++group_;
  }

  std::unique_ptr<parquet::ParquetFileReader> file_;
  std::vector<ParquetColumn> columns_;
  int column_ = 0, group_ = 0;  // group_: the next one to open
  int16_t whole_level_ = 0;     // the definition level of a value that is there
  int64_t left_ = 0;            // rows of the open group
  std::shared_ptr<parquet::RowGroupReader> group_reader_;
  std::shared_ptr<parquet::ByteArrayReader> reader_;
  std::array<int16_t, rows_at_once> levels_{};
  std::array<parquet::ByteArray, rows_at_once> values_{};
  std::vector<ParquetText> texts_;
};

}  // namespace
}  // namespace terrace::data

terrace::data::ParquetReader* terrace_open_parquet_1(const char* path) { return new terrace::data::ArrowReader(path); }
