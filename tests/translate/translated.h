// Translations as the tests look at them: keys by name, messages, and the configuration that follows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/models/planned_families.h"
#include "terrace/translate/translation.h"
#include "tests/models/gpt_formulas.h"

namespace terrace::translate {

// The message of a translation that is refused; "" for one that is not.
inline std::string refusal_of(const std::function<void()>& translate) {
  try {
    translate();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// The configuration of a translation, which has no keys without effect.
inline config::Config config_of(const Translation& translation, const std::vector<std::string>& overrides = {}) {
  return config::parse_for_plan(toml_of(translation), "translated", models::planned_families(), overrides,
                                config::IdleKeys::refuse);
}

inline int64_t parameters_of(const Translation& translation, const std::vector<std::string>& overrides = {}) {
  return models::gpt::parameter_count(models::gpt::model_of(config_of(translation, overrides)));
}

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline bool has_line_with(const std::vector<std::string>& lines, const std::string& part) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return holds(line, part); });
}

// The text with three of its letters replaced by letters that mean something in a command line, JSON or TOML. The state
// of the random numbers moves on.
inline std::string damaged(std::string text, uint64_t& state) {
  constexpr std::string_view letters = "\"'\\$-=09 \n,.e[]{}#:";
  for (int change = 0; change < 3; ++change) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text[(state >> 33) % text.size()] = letters[(state >> 20) % letters.size()];
  }
  return text;
}

}  // namespace terrace::translate
