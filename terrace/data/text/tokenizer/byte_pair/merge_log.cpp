// Finds the number of merges in lines like "bpe_model_trainer.cc(258) LOG(INFO) Added: freq=9 size=40 all=1200".
#include "terrace/data/text/tokenizer/byte_pair/merge_log.h"

#include <charconv>
#include <cmath>
#include <iostream>
#include <string_view>
#include <utility>

namespace terrace::data {

MergeLog::MergeLog(std::function<void(int64_t)> on_merges)
    : on_merges_(std::move(on_merges)), before_(std::cerr.rdbuf(this)) {}

MergeLog::~MergeLog() { std::cerr.rdbuf(before_); }

MergeLog::int_type MergeLog::overflow(int_type character) {
  if (character == '\n') {
    show_error();
    read_merges();
    line_.clear();
  } else {
    line_.push_back(static_cast<char>(character));
  }
  return traits_type::not_eof(character);
}

// Lines of the trainer begin with "FILE.cc(LINE)"; a failed check follows it with the condition instead of a severity.
void MergeLog::show_error() {
  const bool is_logged = line_.find(".cc(") != std::string::npos;
  if (!is_logged || line_.find("LOG(INFO)") != std::string::npos || line_.find("LOG(WARNING)") != std::string::npos) {
    return;
  }
  std::ostream shown(before_);
  shown << line_ << '\n' << std::flush;
}

void MergeLog::read_merges() {
  constexpr std::string_view before = " size=";
  const std::string_view line = line_;
  const size_t at = line.find(before);
  if (at == std::string_view::npos || line.find("Added: ") > at) return;
  int64_t merges = 0;
  const char* end = line.data() + line.size();
  if (std::from_chars(line.data() + at + before.size(), end, merges).ec == std::errc()) on_merges_(merges);
}

double merge_work(int64_t merges, uint64_t sample_bytes) {
  // Measured on 16 MiB of English text: all changed places together cost as much as 2,000 * ln(merges) late merges.
  constexpr double per_byte = 2000.0 / (16 << 20);
  const auto count = static_cast<double>(merges);
  return count + per_byte * static_cast<double>(sample_bytes) * std::log1p(count);
}

}  // namespace terrace::data
