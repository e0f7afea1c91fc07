// Looks each argument up in the table and does what its row says.
#include "terrace/translate/argument_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "terrace/base/text/lower_case.h"
#include "terrace/config/domain.h"
#include "terrace/config/key.h"

namespace terrace::translate {
namespace {

using config::toml_text;

// The parts of "a|b|c".
std::vector<std::string_view> alternatives(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = text.find('|');
    parts.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return parts;
}

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

// The name as arguments_of() writes it, whatever hyphens the user wrote.
std::string normal_name(std::string name, Spelling spelling) {
  if (spelling == Spelling::path) return name;
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  std::ranges::replace(name, '_', '-');
  return name;
}

// The largest number that is read, so that sums and quotients of several stay in range.
constexpr int64_t most_whole = 1'000'000'000'000'000;

template <typename Number>
bool read_number(const std::string& text, Number& number) {
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(begin, end, number);
  return error == std::errc{} && rest == end;
}

}  // namespace

ArgumentReader::ArgumentReader(std::vector<Argument> arguments, std::span<const Row> table, Spelling spelling,
                               const Wishes& wishes, Translation& translation, std::vector<std::string>& problems)
    : table_(table), spelling_(spelling), wishes_(wishes), translation_(translation), problems_(problems) {
  for (Argument& argument : arguments) {
    const auto is_wished = [&](const std::string& name) { return normal_name(name, spelling) == argument.name; };
    if (std::ranges::any_of(wishes.left_out, is_wished)) {
      translation.left_out.push_back(argument.text);
      continue;
    }
    const Argument* earlier = find(argument.name);
    if (earlier == nullptr) {
      arguments_.push_back(std::move(argument));
    } else if (earlier->values != argument.values) {
      problem(fmt::format("{} and {} are both given; remove one of them", earlier->text, argument.text));
    }
  }
  for (const Argument& argument : arguments_) {
    const Row* row = row_of(argument.name);
    if (row == nullptr) {
      translation.unknown.push_back(argument.text);
    } else {
      apply(argument, *row);
    }
  }
}

const Argument* ArgumentReader::find(std::string_view name) const {
  const auto found = std::ranges::find(arguments_, name, &Argument::name);
  return found == arguments_.end() ? nullptr : &*found;
}

const Row* ArgumentReader::row_of(std::string_view name) const {
  const auto found = std::ranges::find_if(table_, [&](const Row& row) { return matches(row.name, name); });
  return found == table_.end() ? nullptr : &*found;
}

void ArgumentReader::apply(const Argument& argument, const Row& row) {
  const auto set_value = [&](const auto& value) {
    if (value) set(row.key, toml_text(*value), argument.text);
  };
  switch (row.meaning) {
    case Meaning::count:
      return set_value(whole_of(argument, 1));
    case Meaning::whole:
      return set_value(whole_of(argument, 0));
    case Meaning::real:
      return set_value(real_of(argument));
    case Meaning::boolean:
      return set_value(boolean_of(argument));
    case Meaning::opposite: {
      const std::optional<bool> value = boolean_of(argument);
      return set_value(value ? std::optional(!*value) : value);
    }
    case Meaning::text:
      if (const auto value = word_of(argument)) set(row.key, toml_text(std::string_view(*value)), argument.text);
      return;
    case Meaning::word:
      return apply_word(argument, row);
    case Meaning::flag:
      if (!argument.values.empty()) {
        return problem(
            fmt::format("{}: {} takes no value; remove what follows it", argument.text, written(argument.name)));
      }
      return set(row.key, std::string(row.about), argument.text);
    case Meaning::part:
      return;
    case Meaning::no_effect:
      translation_.without_effect.push_back(argument.text);
      return;
    case Meaning::no_twin:
      translation_.no_twin.push_back({argument.text, std::string(row.about)});
      return;
    case Meaning::refused:
      return apply_refused(argument, row);
  }
}

void ArgumentReader::apply_word(const Argument& argument, const Row& row) {
  const std::optional<std::string> value = word_of(argument);
  if (!value) return;
  std::vector<std::string> known;
  for (const std::string_view pair : alternatives(row.about)) {
    const std::string_view theirs = pair.substr(0, pair.find('=')), ours = pair.substr(pair.find('=') + 1);
    if (lower_case(theirs) == lower_case(*value)) {
      return set(row.key, toml_text(ours), argument.text);
    }
    known.emplace_back(theirs);
  }
  refuse(argument.name, fmt::format("there is a twin of {} only", config::listed(known, "and")), row.key);
}

void ArgumentReader::apply_refused(const Argument& argument, const Row& row) {
  const bool is_harmless =
      argument.values.size() == 1 && std::ranges::any_of(alternatives(row.harmless), [&](std::string_view value) {
        return lower_case(value) == lower_case(argument.values.front());
      });
  if (is_harmless) {
    translation_.without_effect.push_back(argument.text);
  } else {
    refuse(argument.name, row.about, row.key);
  }
}

void ArgumentReader::problem(std::string text) {
  if (std::ranges::find(problems_, text) == problems_.end()) problems_.push_back(std::move(text));
}

void ArgumentReader::refuse(std::string_view name, std::string_view about, std::string_view key) {
  const Argument* argument = find(name);
  const std::string given = argument != nullptr ? argument->text : written(name);
  if (!key.empty() && wishes_.gives(key)) {
    translation_.no_twin.push_back({given, fmt::format("--set {} takes its place", key)});
    return;
  }
  const std::string instead = key.empty() ? "" : fmt::format("give the value to plan with, --set {}=.., or ", key);
  problem(fmt::format("{}: {}; {}plan without it: --leave-out {}", given, about, instead, name));
}

void ArgumentReader::require(std::string_view key, std::string_view argument) {
  if (!translation_.value_of(key).empty() || wishes_.gives(key)) return;
  const size_t dot = key.find('.');
  problem(fmt::format("{} is missing, which gives {}; add it, or --set {}=..", argument, key.substr(dot + 1), key));
}

void ArgumentReader::remark(std::string_view name, std::string_view about) {
  translation_.no_twin.push_back({text(name), std::string(about)});
}

void ArgumentReader::set(std::string_view key, const std::string& value, std::string_view argument) {
  const auto found = std::ranges::find(translation_.settings, key, &Setting::key);
  Setting setting{.argument = std::string(argument), .key = std::string(key), .value = value};
  if (found == translation_.settings.end()) {
    translation_.settings.push_back(setting);
  } else if (found->is_default) {
    *found = setting;
  } else if (found->value != value) {
    problem(fmt::format("{} and {} disagree: {} would be {} or {}; change one of them", found->argument, argument, key,
                        found->value, value));
  }
}

void ArgumentReader::set_default(std::string_view key, const std::string& value, std::string_view argument) {
  if (!translation_.value_of(key).empty()) return;
  translation_.settings.push_back(
      {.argument = std::string(argument), .key = std::string(key), .value = value, .is_default = true});
}

void ArgumentReader::finish() {
  for (const Argument& argument : arguments_) {
    const Row* row = row_of(argument.name);
    if (row == nullptr || row->meaning != Meaning::part) continue;
    const auto names = [&](const std::string& text) { return text.find(argument.text) != std::string::npos; };
    const bool is_named = std::ranges::any_of(translation_.settings, names, &Setting::argument) ||
                          std::ranges::any_of(translation_.no_twin, names, &Remark::argument) ||
                          std::ranges::any_of(translation_.assumptions, names);
    if (!is_named) translation_.agreeing.push_back(argument.text);
  }
  for (Setting& setting : translation_.settings) setting.is_replaced = wishes_.gives(setting.key);
  const std::vector<std::string> sections = config::section_names();
  std::ranges::stable_sort(translation_.settings, {}, [&](const Setting& setting) {
    return std::ranges::find(sections, setting.key.substr(0, setting.key.find('.'))) - sections.begin();
  });
}

bool ArgumentReader::has_any(std::initializer_list<std::string_view> names) const {
  return std::ranges::any_of(names, [&](std::string_view name) { return has(name); });
}

std::string ArgumentReader::text(std::string_view name) const {
  const Argument* argument = find(name);
  return argument == nullptr ? "" : argument->text;
}

std::vector<std::string> ArgumentReader::words(std::string_view name) const {
  const Argument* argument = find(name);
  return argument == nullptr ? std::vector<std::string>{} : argument->values;
}

std::optional<std::string> ArgumentReader::word(std::string_view name) {
  const Argument* argument = find(name);
  return argument == nullptr ? std::nullopt : word_of(*argument);
}

std::optional<int64_t> ArgumentReader::whole(std::string_view name, int64_t least) {
  const Argument* argument = find(name);
  return argument == nullptr ? std::nullopt : whole_of(*argument, least);
}

std::optional<double> ArgumentReader::real(std::string_view name) {
  const Argument* argument = find(name);
  return argument == nullptr ? std::nullopt : real_of(*argument);
}

std::optional<bool> ArgumentReader::boolean(std::string_view name) {
  const Argument* argument = find(name);
  return argument == nullptr ? std::nullopt : boolean_of(*argument);
}

std::string ArgumentReader::written(std::string_view name) const {
  return spelling_ == Spelling::option ? "--" + std::string(name) : std::string(name);
}

std::optional<std::string> ArgumentReader::word_of(const Argument& argument) {
  if (argument.values.size() == 1) return argument.values.front();
  problem(argument.values.empty() ? fmt::format("{} has no value; give one after it", argument.text)
                                  : fmt::format("{} has {} values; give one", argument.text, argument.values.size()));
  return std::nullopt;
}

std::optional<int64_t> ArgumentReader::whole_of(const Argument& argument, int64_t least) {
  const std::optional<std::string> value = word_of(argument);
  if (!value) return std::nullopt;
  int64_t number = 0;
  if (read_number(*value, number) && number >= least && number <= most_whole) return number;
  problem(fmt::format("{}: the value must be a whole number from {} to {}", argument.text, least, most_whole));
  return std::nullopt;
}

std::optional<double> ArgumentReader::real_of(const Argument& argument) {
  const std::optional<std::string> value = word_of(argument);
  if (!value) return std::nullopt;
  double number = 0;
  if (read_number(*value, number) && std::isfinite(number) && number >= 0) return number;
  problem(fmt::format("{}: the value must be a number of at least 0, such as 0.1 or 1e-5", argument.text));
  return std::nullopt;
}

std::optional<bool> ArgumentReader::boolean_of(const Argument& argument) {
  const std::optional<std::string> value = word_of(argument);
  if (!value) return std::nullopt;
  if (*value == "true" || *value == "false") return *value == "true";
  problem(fmt::format("{}: the value must be true or false", argument.text));
  return std::nullopt;
}

}  // namespace terrace::translate
