// [data] of a model of text: its struct, its keys and their rules.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/config/idle.h"
#include "terrace/config/key.h"
#include "terrace/config/rules.h"

namespace terrace::data {

struct TextConfig {
  std::vector<std::string> train = {};       // prefixes of .bin/.idx; none where corpora are only evaluated
  std::vector<double> weights = {};          // one per prefix; empty: in proportion to their tokens
  std::vector<std::string> validation = {};  // prefixes; empty: validation_share of train is held out
  double validation_share = 0.01;
  bool reset_at_documents = false;  // attention and positions start again at document boundaries
  std::string tokenizer = {};       // SentencePiece model, kept with the checkpoint; may be empty
  bool operator==(const TextConfig&) const = default;
};

// [data] of a configuration whose family reads text; aborts where it does not.
inline TextConfig& text_of(config::Config& config) { return config.data.get<TextConfig>(); }
inline const TextConfig& text_of(const config::Config& config) { return config.data.get<TextConfig>(); }

std::vector<config::Key> text_keys();
std::vector<config::Rule> text_rules();
std::vector<config::IdleRule> text_idle_rules();

}  // namespace terrace::data
