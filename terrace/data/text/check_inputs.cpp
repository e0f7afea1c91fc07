// Reads the first block of each file and collects what is wrong.
#include "terrace/data/text/check_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/text/plural.h"
#include "terrace/data/parquet/parquet_texts.h"

namespace terrace::data {
namespace {

constexpr uint64_t looked_at_bytes = 1 << 16;

// Plain text has nothing to check, and what is read from a pipe is gone.
bool can_be_checked(const InputFile& file) {
  return file.format != TextFormat::plain && std::filesystem::is_regular_file(file.path);
}

std::vector<MalformedLine> malformed_at_beginning(const InputFile& file, BlockRules rules) {
  if (file.format == TextFormat::parquet) {
    const ParquetTexts texts(file.path, rules.field);  // finds the column, but reads no row
    return {};
  }
  rules.block_bytes = std::min(rules.block_bytes, looked_at_bytes);
  const std::vector<InputFile> alone{file};
  TextBlocks blocks(alone, rules);
  const std::optional<TextBlock> block = blocks.next();
  return block ? for_each_text(*block, rules, [](std::string_view, bool, bool) {}) : std::vector<MalformedLine>{};
}

// Returns at most malformed_shown lines, and of every file the first one before the second one of any.
std::vector<MalformedLine> shown(const std::vector<std::vector<MalformedLine>>& by_file) {
  std::vector<MalformedLine> lines;
  size_t longest = 0;
  for (const auto& own : by_file) longest = std::max(longest, own.size());
  for (size_t i = 0; i < longest; ++i) {
    for (const auto& own : by_file) {
      if (i < own.size() && lines.size() < malformed_shown) lines.push_back(own[i]);
    }
  }
  return lines;
}

}  // namespace

void throw_malformed(uint64_t count, uint64_t allowed, const std::vector<MalformedLine>& first) {
  std::string list;
  for (const MalformedLine& line : first) list += fmt::format("\n  {}:{}: {}", line.file, line.line, line.reason);
  throw UserError::of("{} so far, where --max-malformed allows {}; correct them, or allow more; the first:{}",
                      counted(count, "malformed line"), allowed, list);
}

void check_inputs(const std::vector<InputFile>& files, const BlockRules& rules, uint64_t max_malformed,
                  const std::function<void()>& check_stop) {
  std::vector<std::string> problems;
  std::vector<std::vector<MalformedLine>> malformed;
  uint64_t count = 0;
  for (const InputFile& file : files) {
    if (!can_be_checked(file)) continue;
    check_stop();
    try {
      malformed.push_back(malformed_at_beginning(file, rules));
      count += malformed.back().size();
    } catch (const UserError& error) {
      problems.emplace_back(error.what());
    }
  }
  throw_problems(problems, "input files that cannot be read");
  if (count > max_malformed) throw_malformed(count, max_malformed, shown(malformed));
}

}  // namespace terrace::data
