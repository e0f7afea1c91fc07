// Splits files into blocks at document ends, line ends, or positions that the encoder allows.
#include "terrace/data/text/text_blocks.h"

#include <algorithm>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/shell_word.h"
#include "terrace/data/json_array.h"
#include "terrace/data/text/json_lines.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

constexpr size_t read_bytes = size_t{1} << 18;

std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_blank_line(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }

std::string too_long(const BlockRules& rules) {
  return fmt::format("longer than {} bytes; raise --max-line-bytes", rules.max_line_bytes);
}

}  // namespace

TextBlocks::TextBlocks(const std::vector<InputFile>& files, BlockRules rules)
    : files_(files), rules_(std::move(rules)) {
  TERRACE_CHECK(rules_.block_bytes > 0, "empty blocks");
}

bool TextBlocks::open_next_file() {
  if (file_ != nullptr) finished_bytes_ += file_->bytes;
  source_.reset();
  parquet_.reset();
  pending_.clear();
  carried_.clear();
  if (next_file_ == files_.size()) {
    file_ = nullptr;
    return false;
  }
  file_ = &files_[next_file_++];
  if (file_->format == TextFormat::parquet) {
    parquet_ = std::make_unique<ParquetTexts>(file_->path, rules_.field);
  } else {
    source_ = without_byte_order_mark(open_bytes(file_->path));
    if (file_->format == TextFormat::json_lines) source_ = elements_as_lines(std::move(source_), file_->path);
  }
  ended_ = parquet_ != nullptr && parquet_->done();
  file_bytes_ = 0;
  line_ = 1;
  in_document_ = false;
  at_line_start_ = true;
  return true;
}

void TextBlocks::skip_file() {
  pending_.clear();
  carried_.clear();
  ended_ = true;
}

uint64_t TextBlocks::disk_bytes_read() const {
  if (file_ == nullptr) return finished_bytes_;
  if (parquet_ == nullptr) return finished_bytes_ + std::min(source_->disk_position(), file_->bytes);
  return finished_bytes_ + static_cast<uint64_t>(parquet_->share_read() * static_cast<double>(file_->bytes));
}

// Reads until `size` bytes are pending or the file ends.
void TextBlocks::fill(uint64_t size) {
  while (!ended_ && pending_.size() < size) {
    const size_t before = pending_.size();
    pending_.resize(before + read_bytes);
    const size_t got = source_->read(pending_.data() + before, read_bytes);
    pending_.resize(before + got);
    file_bytes_ += got;
    ended_ = got == 0;
  }
}

std::string TextBlocks::take(size_t size) {
  std::string taken = pending_.substr(0, size);
  pending_.erase(0, size);
  return taken;
}

std::optional<TextBlock> TextBlocks::next() {
  while (ended_ && pending_.empty()) {
    if (!open_next_file()) return std::nullopt;
    if (parquet_ != nullptr) continue;
    fill(1);
    // An empty file of plain text is an empty document, which is counted.
    if (ended_ && file_->format == TextFormat::plain) return TextBlock{.file = file_, .ends = {0}};
  }
  if (parquet_ != nullptr) return parquet_block();
  return file_->format == TextFormat::plain ? plain_block() : json_block();
}

TextBlock TextBlocks::plain_block() {
  TextBlock block{.file = file_, .starts_document = !in_document_};
  // One byte more than the block is read, to know whether the file continues.
  fill(rules_.block_bytes + 1);
  if (rules_.separator) {
    take_separated(block);
  } else {
    const size_t size = ended_ ? pending_.size() : rules_.block_bytes;
    const std::string_view text = std::string_view(pending_).substr(0, size);
    block.bytes = take(ended_ || !rules_.cut ? size : rules_.cut(text));
  }
  fill(1);
  const bool open =
      block.ends.empty() ? !block.bytes.empty() || !block.starts_document : block.ends.back() < block.bytes.size();
  const bool finished = ended_ && pending_.empty();
  if (finished && open) block.ends.push_back(block.bytes.size());
  in_document_ = open && !finished;
  return block;
}

// Takes the text that was carried over and the whole pending lines, without the separators. A line longer than a block
// is split into parts, which are never separators.
void TextBlocks::take_separated(TextBlock& block) {
  size_t end = pending_.size();
  if (!ended_) {
    const size_t last_line_end = pending_.rfind('\n');
    if (last_line_end != std::string::npos) {
      end = last_line_end + 1;
    } else if (rules_.cut) {
      end = rules_.cut(pending_);
    }
  }
  block.bytes = std::exchange(carried_, {});
  const std::string text = take(end);
  for (size_t at = 0; at < text.size();) {
    const size_t line_end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = std::string_view(text).substr(at, line_end - at);
    if (at_line_start_ && without_line_end(line) == *rules_.separator) {
      const bool anything = !block.bytes.empty() || !block.starts_document;
      if (anything && (block.ends.empty() || block.ends.back() < block.bytes.size())) {
        block.ends.push_back(block.bytes.size());
      }
    } else {
      block.bytes += line;
    }
    at_line_start_ = line.ends_with('\n');
    at = line_end;
  }
  // A document that goes on is cut where its tokens allow, which need not be between lines.
  fill(1);
  const size_t begin = block.ends.empty() ? 0 : block.ends.back();
  if (!rules_.cut || begin == block.bytes.size() || (ended_ && pending_.empty())) return;
  const size_t cut = begin + rules_.cut(std::string_view(block.bytes).substr(begin));
  carried_ = block.bytes.substr(cut);
  block.bytes.resize(cut);
}

TextBlock TextBlocks::json_block() {
  TextBlock block{.file = file_, .first_line = line_};
  fill(rules_.block_bytes);
  size_t line_end = pending_.rfind('\n');
  while (line_end == std::string::npos && !ended_ && pending_.size() <= rules_.max_line_bytes) {
    const size_t searched = pending_.size();
    fill(searched + 1);
    line_end = pending_.find('\n', searched);
  }
  if (line_end == std::string::npos && pending_.size() > rules_.max_line_bytes) {
    drop_long_line(block);
    return block;
  }
  block.bytes = take(ended_ ? pending_.size() : line_end + 1);
  line_ += static_cast<uint64_t>(std::count(block.bytes.begin(), block.bytes.end(), '\n'));
  fill(1);
  return block;
}

void TextBlocks::drop_long_line(TextBlock& block) {
  size_t line_end = std::string::npos;
  while ((line_end = pending_.find('\n')) == std::string::npos && !ended_) {
    pending_.clear();
    fill(1);
  }
  pending_.erase(0, line_end == std::string::npos ? pending_.size() : line_end + 1);
  block.malformed.push_back({file_->path.string(), line_++, too_long(rules_)});
  fill(1);
}

TextBlock TextBlocks::parquet_block() {
  TextBlock block{.file = file_, .first_line = line_};
  while (block.bytes.size() < rules_.block_bytes) {
    const std::optional<ParquetText> row = parquet_->next();
    if (!row) break;
    if (row->is_null) block.null_rows.push_back(block.ends.size());
    block.bytes += row->text;
    block.ends.push_back(block.bytes.size());
    file_bytes_ += row->text.size();
    ++line_;
  }
  ended_ = parquet_->done();
  return block;
}

namespace {

// Recognises the lines of objects that are written over several lines, so that each is one malformed line.
class SpreadObjects {
 public:
  explicit SpreadObjects(const std::string& file) : file_(file) {}

  // Returns whether the line, which is no JSON, goes on with the object of an earlier line.
  bool continues(std::string_view line) {
    if (!is_open_) return false;
    is_open_ = !line.starts_with('}');
    return !line.starts_with('{');
  }

  // Returns what is wrong with a line that is no JSON, if the line begins such an object.
  std::optional<std::string> problem_of_first(std::string_view line) {
    const size_t last = line.find_last_not_of(" \t\r");
    is_open_ = line.starts_with('{') && (line[last] == '{' || line[last] == '[' || line[last] == ',');
    if (!is_open_) return std::nullopt;
    const std::string what = "a JSON object over several lines, where each line must be a whole object";
    return std::exchange(is_known_, true)
               ? what
               : fmt::format("{}; write it on one line, such as with: jq -c . {}", what, shell_word(file_));
  }

 private:
  const std::string& file_;
  bool is_open_ = false, is_known_ = false;
};

std::optional<std::string> problem_of_row(std::string_view text, bool is_null, const BlockRules& rules) {
  if (is_null) return fmt::format("column \"{}\" is null instead of a string", rules.field);
  if (text.size() > rules.max_line_bytes) return too_long(rules);
  const size_t valid = valid_length(text);
  if (valid < text.size()) return fmt::format("column \"{}\" is not UTF-8 at byte {}", rules.field, valid + 1);
  return std::nullopt;
}

void for_each_row(const TextBlock& block, const BlockRules& rules, std::vector<MalformedLine>& malformed,
                  const std::function<void(std::string_view, bool, bool)>& take) {
  const std::string_view bytes = block.bytes;
  auto null_row = block.null_rows.begin();
  size_t begin = 0;
  for (size_t i = 0; i < block.ends.size(); ++i) {
    const std::string_view text = bytes.substr(begin, block.ends[i] - begin);
    begin = block.ends[i];
    const bool is_null = null_row != block.null_rows.end() && *null_row == i;
    if (is_null) ++null_row;
    if (const auto problem = problem_of_row(text, is_null, rules)) {
      malformed.push_back({block.file->path.string(), block.first_line + i, *problem});
    } else {
      take(text, true, true);
    }
  }
}

}  // namespace

std::vector<MalformedLine> for_each_text(const TextBlock& block, const BlockRules& rules,
                                         const std::function<void(std::string_view, bool, bool)>& take) {
  const std::string_view bytes = block.bytes;
  std::vector<MalformedLine> malformed = block.malformed;
  if (block.file->format == TextFormat::plain) {
    size_t begin = 0;
    bool starts = block.starts_document;
    for (size_t end : block.ends) {
      take(bytes.substr(begin, end - begin), starts, true);
      begin = end;
      starts = true;
    }
    if (begin < bytes.size()) take(bytes.substr(begin), starts, false);
    return malformed;
  }
  if (block.file->format == TextFormat::parquet) {
    for_each_row(block, rules, malformed, take);
    return malformed;
  }
  std::string text;
  const std::string file = block.file->path.string();
  SpreadObjects spread(file);
  uint64_t number = block.first_line;
  for (size_t at = 0; at < bytes.size(); ++number) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    const std::string_view line = bytes.substr(at, end - at);
    at = end + 1;
    if (is_blank_line(line)) continue;
    const auto problem = line.size() > rules.max_line_bytes ? too_long(rules) : extract_text(line, rules.field, text);
    if (!problem) {
      take(text, true, true);
    } else if (!spread.continues(line)) {
      malformed.push_back({file, number, spread.problem_of_first(line).value_or(*problem)});
    }
  }
  return malformed;
}

}  // namespace terrace::data
