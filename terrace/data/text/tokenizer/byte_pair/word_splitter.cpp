// Applies the rules of a pre-tokenizer one after the other.
#include "terrace/data/text/tokenizer/byte_pair/word_splitter.h"

#include <algorithm>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::data {

WordSplitter::WordSplitter(const BytePairModel& model, const std::string& name) : rules_(model.patterns) {
  if (model.add_prefix_space && !rules_.empty()) spaced_at_ = rules_.size();
  if (model.byte_level_splits) rules_.emplace_back(gpt2_pattern);
  if (!model.byte_patterns.empty()) spelled_at_ = rules_.size();
  rules_.insert(rules_.end(), model.byte_patterns.begin(), model.byte_patterns.end());
  for (const SplitRule& rule : rules_) patterns_.emplace_back(rule.expression, name);
}

bool WordSplitter::drops_text() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const SplitRule& rule) { return rule.drops_text(); });
}

WordSplitter::Matcher::Matcher(const WordSplitter& splitter) : splitter_(splitter) {
  for (const UnicodePattern& pattern : splitter.patterns_) matchers_.emplace_back(pattern);
}

std::string WordSplitter::Matcher::unspelled_piece(std::string_view spelling) {
  auto bytes = unspelled(spelling);
  TERRACE_CHECK(bytes.has_value(), "a piece outside of the byte alphabet");
  return std::move(*bytes);
}

}  // namespace terrace::data
