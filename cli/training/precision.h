// Translates the words of --precision.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/config/names.h"

namespace terrace::cli {

inline std::vector<std::string> precision_words() {
  const auto& words = config::Names<config::Precision>::words;
  return {words.begin(), words.end()};
}

// `word` must be one of precision_words().
inline config::Precision precision_of(const std::string& word) {
  const auto words = precision_words();
  return static_cast<config::Precision>(std::ranges::find(words, word) - words.begin());
}

}  // namespace terrace::cli
