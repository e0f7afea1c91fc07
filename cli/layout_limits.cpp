// Finds the numbers that limits name in a configuration.
#include "cli/layout_limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/spelling.h"
#include "terrace/config/domain.h"
#include "terrace/config/family.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/search/study/expression.h"
#include "terrace/search/study/value.h"

namespace terrace::cli {
namespace {

using config::Config;
using Reading = std::function<double(const Config&)>;

double number_in(const std::string& toml) {
  if (toml == "true" || toml == "false") return toml == "true" ? 1 : 0;
  return search::parse_number(toml).value_or(std::numeric_limits<double>::quiet_NaN());
}

int64_t data_ranks(const Config& config, int64_t devices) { return devices / config.layout.ranks_of_samples(); }

// The names that limits may use, with the number that each stands for.
class Names {
 public:
  Names(const Config& config, int64_t devices) {
    add("data", [devices](const Config& c) { return static_cast<double>(data_ranks(c, devices)); });
    add("micro_batches", [devices](const Config& c) {
      return static_cast<double>(schedule::pipeline_of(c, data_ranks(c, devices)).micro_batches);
    });
    add("devices", [devices](const Config&) { return static_cast<double>(devices); });
    for (const config::Key& key : config::keys_of(config.family)) {
      if (std::isnan(number_in(key.write(config)))) continue;
      const Reading reading = [write = key.write](const Config& c) { return number_in(write(c)); };
      readings_.emplace_back(key.full_name(), reading);
      if (plan::varied_keys().contains(key.full_name())) add(key.name, reading);
    }
  }

  const Reading* find(const std::string& name) const {
    const auto found = std::ranges::find(readings_, name, &std::pair<std::string, Reading>::first);
    return found == readings_.end() ? nullptr : &found->second;
  }

  std::string refusal(const std::string& name) const {
    const std::string nearest = nearest_word(name, short_names_);
    return fmt::format("there is no number {}{} Limits compare {}, and keys that are numbers, such as train.seed", name,
                       nearest.empty() ? "." : "; did you mean " + nearest + "?", config::listed(short_names_, "and"));
  }

 private:
  void add(const std::string& name, const Reading& reading) {
    short_names_.push_back(name);
    readings_.emplace_back(name, reading);
  }

  std::vector<std::string> short_names_;
  std::vector<std::pair<std::string, Reading>> readings_;
};

struct Limit {
  search::Expression expression;
  std::vector<Reading> readings;  // of the expression's names

  bool holds(const Config& config) const {
    std::vector<double> values;
    for (const Reading& reading : readings) values.push_back(reading(config));
    return search::is_true(expression.evaluate(values));
  }
};

Limit limit_of(const std::string& text, const Names& names) {
  Limit limit{.expression = search::Expression(text), .readings = {}};
  for (const std::string& name : limit.expression.names()) {
    const Reading* reading = names.find(name);
    if (reading == nullptr) throw UserError(names.refusal(name));
    limit.readings.push_back(*reading);
  }
  return limit;
}

}  // namespace

plan::LayoutLimits layout_limits(const std::vector<std::string>& overrides, const std::vector<std::string>& limits,
                                 const Config& config, int64_t devices) {
  plan::LayoutLimits result{.text = fmt::format("{}", fmt::join(limits, ", "))};
  for (const std::string& one : overrides) result.kept.insert(one.substr(0, one.find('=')));
  const Names names(config, devices);
  std::vector<Limit> all;
  std::vector<std::string> problems;
  for (const std::string& text : limits) {
    try {
      all.push_back(limit_of(text, names));
    } catch (const UserError& error) {
      problems.push_back(fmt::format("--limit \"{}\": {}", text, error.what()));
    }
  }
  if (!problems.empty()) throw UserError(fmt::format("{}", fmt::join(problems, "\n")));
  if (!all.empty()) {
    result.allows = [all](const Config& layout) {
      return std::ranges::all_of(all, [&](const Limit& limit) { return limit.holds(layout); });
    };
  }
  return result;
}

}  // namespace terrace::cli
