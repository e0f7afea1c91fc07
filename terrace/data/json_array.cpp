// Follows strings and brackets byte by byte: each byte gives at most one byte of a line.
#include "terrace/data/json_array.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

bool is_space(char byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

class ArrayLines : public ByteSource {
 public:
  ArrayLines(std::unique_ptr<ByteSource> source, std::string file)
      : source_(std::move(source)), file_(std::move(file)) {}

  size_t read(char* to, size_t size) override {
    // Bytes that become no byte of a line, such as blanks between elements, may fill a whole read.
    while (const size_t got = source_->read(to, size)) {
      size_t kept = 0;
      for (size_t i = 0; i < got; ++i) {
        if (const std::optional<char> byte = follow(to[i])) to[kept++] = *byte;
      }
      if (kept > 0) return kept;
    }
    if (!closed_) {
      throw UserError::of("{}: the JSON array does not end with a ]; the file may be cut off", file_);
    }
    return 0;
  }
  uint64_t disk_position() const override { return source_->disk_position(); }

 private:
  std::optional<char> follow(char byte) {
    if (in_string_) {
      in_string_ = escaped_ || byte != '"';
      escaped_ = !escaped_ && byte == '\\';
      return byte == '\n' ? ' ' : byte;
    }
    if (closed_) return byte;  // bytes behind the array are not lost
    if (is_space(byte)) return depth_ > 1 ? std::optional(' ') : std::nullopt;
    in_string_ = byte == '"';
    if (byte == '[' || byte == '{') return depth_++ == 0 ? std::nullopt : std::optional(byte);
    if (byte == ']' || byte == '}') {
      closed_ = --depth_ == 0;
      return closed_ ? '\n' : byte;
    }
    return byte == ',' && depth_ == 1 ? '\n' : byte;
  }

  std::unique_ptr<ByteSource> source_;
  std::string file_;
  int64_t depth_ = 0;  // 1: between the elements or in one that is neither array nor object
  bool in_string_ = false, escaped_ = false, closed_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> elements_as_lines(std::unique_ptr<ByteSource> source, const std::filesystem::path& path) {
  std::string first;
  while (std::ranges::all_of(first, is_space)) {
    constexpr size_t looked_at = 4096;
    const size_t before = first.size();
    first.resize(before + looked_at);
    const size_t got = source->read(first.data() + before, looked_at);
    first.resize(before + got);
    if (got == 0) break;
  }
  const auto begin = std::ranges::find_if_not(first, is_space);
  const bool is_array = begin != first.end() && *begin == '[';
  auto whole = resumed(std::move(first), std::move(source));
  if (!is_array) return whole;
  return std::make_unique<ArrayLines>(std::move(whole), path.string());
}

}  // namespace terrace::data
