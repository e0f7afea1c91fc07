// Reads input files as a stream of blocks of bounded size, which can be encoded independently.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/data/byte_source.h"
#include "terrace/data/input_files.h"
#include "terrace/data/parquet/parquet_texts.h"

namespace terrace::data {

struct BlockRules {
  std::string field = "text";              // of a line of JSON, or the column of Parquet
  std::optional<std::string> separator{};  // a line of plain text that ends a document and is dropped; "" a blank line
  uint64_t block_bytes = 1 << 20;          // about; a line of JSON and a row of Parquet are never split
  uint64_t max_line_bytes = 64 << 20;      // a longer line of JSON or text of a row counts as malformed
  std::function<size_t(std::string_view)>
      cut{};  // the position in (0, size] at which plain text that continues may be split; unset for any position
};

struct MalformedLine {
  std::string file;
  uint64_t line = 0;  // or row, from 1
  std::string reason;
};

// A block holds a part of a document, whole documents, or both.
struct TextBlock {
  const InputFile* file = nullptr;
  std::string bytes{};                     // plain: text; JSON lines: whole lines; Parquet: the texts of whole rows
  std::vector<size_t> ends{};              // plain and Parquet: where in `bytes` documents end
  std::vector<size_t> null_rows{};         // Parquet: which of these documents are null
  bool starts_document = true;             // plain: the first byte is a document's first
  uint64_t first_line = 1;                 // JSON lines and Parquet: number of the first line or row
  std::vector<MalformedLine> malformed{};  // lines left out of `bytes`
};

class TextBlocks {
 public:
  // `files` must outlive this and the blocks.
  TextBlocks(const std::vector<InputFile>& files, BlockRules rules);

  // Returns the next block, or nothing after the last.
  std::optional<TextBlock> next();

  // Continues with the next file.
  void skip_file();

  uint64_t disk_bytes_read() const;                         // of all files so far
  uint64_t file_bytes_read() const { return file_bytes_; }  // of this file, unpacked

 private:
  bool open_next_file();
  void fill(uint64_t size);
  std::string take(size_t size);
  TextBlock plain_block();
  void take_separated(TextBlock& block);
  TextBlock json_block();
  TextBlock parquet_block();
  void drop_long_line(TextBlock& block);

  const std::vector<InputFile>& files_;
  BlockRules rules_;
  size_t next_file_ = 0;
  const InputFile* file_ = nullptr;
  std::unique_ptr<ByteSource> source_;     // none where the file is Parquet
  std::unique_ptr<ParquetTexts> parquet_;  // none where the file is not Parquet
  std::string carried_;                    // of a document that is open: text behind the last place to cut it
  std::string pending_;                    // bytes that were read and are not in a block yet
  bool ended_ = true;                      // the source has no more
  uint64_t finished_bytes_ = 0;            // on disk, of files done with
  uint64_t file_bytes_ = 0;
  uint64_t line_ = 1;
  bool in_document_ = false;  // the block before left a document open
  bool at_line_start_ = true;
};

// Calls take(text, starts, ends) for each part of a document in the block. Returns the malformed lines and rows,
// including those that were left out of the block.
std::vector<MalformedLine> for_each_text(const TextBlock& block, const BlockRules& rules,
                                         const std::function<void(std::string_view, bool starts, bool ends)>& take);

}  // namespace terrace::data
