// [data] of a model of text: its struct, its keys and their rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/config/idle.h"
#include "terrace/config/key.h"
#include "terrace/config/rules.h"
#include "terrace/data/order/order_config.h"
#include "terrace/data/staging/stage_config.h"

namespace terrace::data {

// Says which held-out targets count, and in which windows the model sees them. Only evaluations outside of training
// choose.
struct HeldOutTargets {
  bool every = false;  // also the targets behind the last whole window of a corpus, in a window that is padded
  // Tokens between the first ones of neighbouring windows, with `every`; a target counts in the first window that has
  // it. 0: model.sequence, so that windows do not overlap.
  int64_t stride = 0;
  bool operator==(const HeldOutTargets&) const = default;
};

struct TextConfig {
  std::vector<std::string> train = {};       // prefixes of .bin/.idx; none where corpora are only evaluated
  std::vector<double> weights = {};          // one per prefix; empty: in proportion to their tokens
  std::vector<std::string> validation = {};  // prefixes; empty: validation_share of train is held out
  double validation_share = 0.01;
  bool reset_at_documents = false;  // attention and positions start again at document boundaries
  std::string tokenizer = {};       // SentencePiece model, kept with the checkpoint; may be empty
  std::string begin_token = {};     // before each document and prompt, by its text or number; "": none
  std::string generation = {};      // generation_config.json, kept with the checkpoint; may be empty
  OrderConfig order = {};
  StageConfig stage = {};
  HeldOutTargets held_out_targets = {};  // no key
  bool operator==(const TextConfig&) const = default;
};

// [data] of a configuration whose family reads text; aborts where it does not.
inline TextConfig& text_of(config::Config& config) { return config.data.get<TextConfig>(); }
inline const TextConfig& text_of(const config::Config& config) { return config.data.get<TextConfig>(); }

// A phase of the run that changes the corpora or their mix.
struct TextPhase {
  std::string name = {};      // "data.phases[1]"
  int64_t from_step = 0;      // the first step
  uint64_t first_sample = 0;  // counted over the whole run
  std::vector<std::string> train = {};
  std::vector<double> weights = {};
};

// Returns the phases in ascending order; phases with the corpora and the mix of the phase before are left out.
std::vector<TextPhase> text_phases(const config::Config& config);

// Returns the names of data.train and of its phases, each once.
std::vector<std::string> training_corpora(const TextConfig& config, const std::vector<TextPhase>& phases);

// Returns the keys of [data] that a phase may change.
std::vector<std::string> text_phase_keys();
std::vector<config::Key> text_keys();
std::vector<config::Rule> text_rules();
std::vector<config::IdleRule> text_idle_rules();

}  // namespace terrace::data
