// Reads and writes each kind of value.
#include "terrace/config/domain.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <type_traits>

#include "terrace/base/error.h"
#include "terrace/base/text/spelling.h"
#include "terrace/base/text/units.h"

namespace terrace::config {
namespace {

std::string kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

std::string mistyped(const std::string& wanted, const toml::node& node) {
  return fmt::format("must be {}, but is {}", wanted, kind_of(node));
}

template <typename Values>
std::string bracketed(const Values& values) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : ", ") + toml_text(value);
  return "[" + text + "]";
}

template <typename Number, typename Order>
std::string inline_table(const std::map<std::string, Number, Order>& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", toml_text(std::string_view(name)), toml_text(value));
  }
  return "{" + text + "}";
}

// Reads a list element by element; `element` returns the problem with one element, or "".
template <typename Value, typename Element>
std::string read_list(const toml::node& node, const std::string& wanted, std::vector<Value>& values, Element element) {
  const toml::array* array = node.as_array();
  if (array == nullptr) {
    const bool wraps = node.is_string() || node.is_number();
    return mistyped(wanted, node) + (wraps ? fmt::format("; write [{}]", shown(node)) : "");
  }
  std::vector<Value> result(array->size());
  for (size_t i = 0; i < array->size(); ++i) {
    const std::string problem = element(*array->get(i), result[i]);
    if (!problem.empty()) return fmt::format("has {} at place {}, which {}", shown(*array->get(i)), i + 1, problem);
  }
  values = std::move(result);
  return "";
}

}  // namespace

std::string toml_text(bool value) { return value ? "true" : "false"; }
std::string toml_text(int64_t value) { return std::to_string(value); }
std::string toml_text(uint64_t value) {
  TERRACE_CHECK(value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()), "{} has no TOML form", value);
  return std::to_string(value);
}

std::string toml_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".ein") == std::string::npos) text += ".0";
  return text;
}

std::string toml_text(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      text += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string toml_text(const NamedNumbers& values) { return inline_table(values); }
std::string toml_text(const Sizes& values) { return inline_table(values); }

std::string toml_text(const std::pair<int64_t, int64_t>& range) {
  return fmt::format("[{}, {}]", range.first, range.second);
}
std::string toml_text(const std::vector<std::string>& values) { return bracketed(values); }
std::string toml_text(const std::vector<double>& values) { return bracketed(values); }
std::string toml_text(const std::vector<int64_t>& values) { return bracketed(values); }
std::string toml_text(const StepRanges& values) { return bracketed(values); }

std::string toml_text(const ShardGroup& group) {
  return group.word == ShardGroup::Word::number ? toml_text(group.number) : toml_text(name_of(group.word));
}

std::string toml_text(const RecomputeLayers& layers) {
  if (layers.word != RecomputeLayers::Word::numbers) return toml_text(name_of(layers.word));
  return layers.numbers.size() == 1 ? toml_text(layers.numbers.front()) : toml_text(layers.numbers);
}

std::string shown(const toml::node& node) {
  std::ostringstream stream;
  if (const auto text = node.value<std::string>(); text && node.is_string()) {
    stream << toml_text(*text);
  } else {
    stream << toml::default_formatter(node, toml::format_flags::none);
  }
  std::string line;
  for (const char c : stream.str()) {
    const bool blank = c == '\n' || c == '\t' || c == ' ';
    if (!blank || (!line.empty() && line.back() != ' ')) line += blank ? ' ' : c;
  }
  constexpr size_t limit = 60;
  if (line.size() <= limit) return line;
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80)
    --end;  // do not cut inside a UTF-8 character
  return line.substr(0, end) + "...";
}

std::string listed(const std::vector<std::string>& words, std::string_view last) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? fmt::format(" {} ", last) : ", ";
    text += words[i];
  }
  return text;
}

std::string Whole::description() const {
  if (most == std::numeric_limits<int64_t>::max()) return fmt::format("a whole number, at least {}", least);
  return fmt::format("a whole number from {} to {}", least, format_count(most));
}

std::string Whole::read(const toml::node& node, int64_t& value) const {
  if (!node.is_integer()) {
    const double number = node.value<double>().value_or(0.5);
    const bool is_whole = node.is_floating_point() && number == std::floor(number) && std::abs(number) < 9e15;
    return mistyped(description(), node) + (is_whole ? fmt::format("; write {:.0f}", number) : "");
  }
  const int64_t number = *node.value<int64_t>();
  if (number < least || number > most) {
    return fmt::format("must be {}; the nearest is {}", description(), std::clamp(number, least, most));
  }
  value = number;
  return "";
}

std::string Whole::read(const toml::node& node, uint64_t& value) const {
  TERRACE_CHECK(least >= 0, "{} as the least unsigned number", least);
  int64_t number = 0;
  std::string problem = read(node, number);
  if (problem.empty()) value = static_cast<uint64_t>(number);
  return problem;
}

std::string Real::description() const {
  std::string text = fmt::format("a number {} {}", least_excluded ? "above" : "of at least", least);
  if (!std::isinf(most)) text += fmt::format(" and {} {}", most_excluded ? "below" : "at most", most);
  return text;
}

std::string Real::read(const toml::node& node, double& value) const {
  if (!node.is_number()) return mistyped(description(), node);
  const double number = *node.value<double>();
  const bool high_enough = least_excluded ? number > least : number >= least;
  const bool low_enough = most_excluded ? number < most : number <= most;
  if (!std::isfinite(number) || !high_enough || !low_enough) return "must be " + description();
  value = number;
  return "";
}

std::string Flag::read(const toml::node& node, bool& value) const {
  if (!node.is_boolean()) return mistyped(description(), node);
  value = *node.value<bool>();
  return "";
}

std::string Text::read(const toml::node& node, std::string& value) const {
  if (!node.is_string()) {
    const bool quotable = !node.is_array() && !node.is_table();
    return mistyped("a string", node) + (quotable ? fmt::format("; write \"{}\"", shown(node)) : "");
  }
  std::string text = *node.value<std::string>();
  if (text.empty() && !may_be_empty) return "must not be empty";
  if (text.find('\0') != std::string::npos) return "must not hold a zero byte";
  value = std::move(text);
  return "";
}

std::string read_word(const toml::node& node, const std::vector<std::string>& words, size_t& index) {
  const std::string wanted = Word{words}.description();
  if (!node.is_string()) return mistyped(wanted, node);
  const auto found = std::find(words.begin(), words.end(), *node.value<std::string>());
  if (found == words.end()) return "must be " + wanted;
  index = static_cast<size_t>(found - words.begin());
  return "";
}

std::string Word::description() const {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(toml_text(word));
  return listed(quoted);
}

std::string Word::read(const toml::node& node, std::string& value) const {
  size_t index = 0;
  std::string problem = read_word(node, words, index);
  if (problem.empty()) value = words[index];
  return problem;
}

std::string OrderOf::description() const { return fmt::format("{} in any order", toml_text(words)); }

std::string OrderOf::read(const toml::node& node, std::vector<std::string>& values) const {
  std::vector<std::string> given;
  std::string problem = read_list(node, description(), given, [this](const toml::node& one, std::string& value) {
    return Word{words}.read(one, value);
  });
  if (!problem.empty()) return problem;
  std::vector<std::string> whole = given;
  for (const std::string& word : words) {
    if (std::ranges::count(given, word) > 1) return fmt::format("names \"{}\" twice; use {}", word, description());
    if (std::ranges::find(given, word) == given.end()) whole.push_back(word);
  }
  if (whole.size() > given.size()) {
    return fmt::format("leaves {} of {} axes out; use {}", whole.size() - given.size(), whole.size(), toml_text(whole));
  }
  values = std::move(given);
  return "";
}

std::string Prefixes::read(const toml::node& node, std::vector<std::string>& values) const {
  const auto element = [](const toml::node& one, std::string& value) -> std::string {
    std::string problem = Text{}.read(one, value);
    if (!problem.empty()) return problem;
    if (value.ends_with('/')) return "names a folder; write the prefix of its files, as in data/corpus";
    if (!value.ends_with(".idx")) return "";
    return fmt::format("names one of the two files; write the prefix \"{}\"", value.substr(0, value.size() - 4));
  };
  const toml::array* array = node.as_array();
  if (array != nullptr && array->empty() && !may_be_empty) return "must name at least one dataset";
  return read_list(node, description(), values, element);
}

namespace {

// The problem with a word that is none of them; "" if it is one, or if there are no words, which allows any.
std::string word_problem(const std::string& word, const std::vector<std::string>& words) {
  if (words.empty() || std::ranges::find(words, word) != words.end()) return "";
  const std::string nearest = nearest_word(word, words);
  return nearest.empty() ? "is none of " + Word{words}.description()
                         : fmt::format("is not known; did you mean {}?", toml_text(nearest));
}

// The problem with a list that is empty and must not be; "" for any other value.
std::string emptiness_problem(const toml::node& node, bool may_be_empty, const std::string& wanted) {
  const toml::array* array = node.as_array();
  return array == nullptr || !array->empty() || may_be_empty ? "" : "must not be empty; it must be " + wanted;
}

// The domain of a small table of numbers by name, in words, and what is wrong with one.
template <typename Domain>
std::string table_description(const Domain& domain, std::string_view example) {
  return domain.words.empty()
             ? fmt::format("a table of numbers, such as {}", example)
             : fmt::format("a table with {} for {}", domain.number.description(), Word{domain.words}.description());
}

template <typename Domain, typename Table>
std::string read_table(const Domain& domain, const toml::node& node, Table& values) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return mistyped(domain.description(), node);
  Table read;
  for (const auto& [key, value] : *table) {
    const std::string name{key.str()};
    std::string problem = word_problem(name, domain.words);
    if (!problem.empty()) return fmt::format("has {}, which {}", name, problem);
    problem = domain.number.read(value, read[name]);
    if (!problem.empty()) return fmt::format("has {} = {}, which {}", name, shown(value), problem);
  }
  values = std::move(read);
  return "";
}

}  // namespace

std::string Texts::description() const {
  return words.empty() ? "a list of strings" : fmt::format("a list of {}", Word{words}.description());
}

std::string Texts::read(const toml::node& node, std::vector<std::string>& values) const {
  if (std::string problem = emptiness_problem(node, may_be_empty, description()); !problem.empty()) return problem;
  std::set<std::string> seen;
  return read_list(node, description(), values, [&](const toml::node& one, std::string& value) -> std::string {
    std::string problem = Text{}.read(one, value);
    if (problem.empty()) problem = word_problem(value, words);
    if (!problem.empty()) return problem;
    return seen.insert(value).second ? "" : "stands there twice";
  });
}

std::string Durations::read(const toml::node& node, std::vector<double>& seconds) const {
  if (std::string problem = emptiness_problem(node, may_be_empty, description()); !problem.empty()) return problem;
  return read_list(node, description(), seconds,
                   [](const toml::node& one, double& value) { return Duration{}.read(one, value); });
}

std::string NumbersByName::description() const { return table_description(*this, "{a = 1.0, b = 0.5}"); }
std::string NumbersByName::read(const toml::node& node, NamedNumbers& values) const {
  return read_table(*this, node, values);
}

std::string SizesByName::description() const { return table_description(*this, "{atoms = 2048, edges = 65536}"); }
std::string SizesByName::read(const toml::node& node, Sizes& values) const { return read_table(*this, node, values); }

std::string PositiveReals::read(const toml::node& node, std::vector<double>& values) const {
  return read_list(node, description(), values, [](const toml::node& one, double& value) {
    return Real{.least = 0, .least_excluded = true}.read(one, value);
  });
}

std::string WholeNumbers::read(const toml::node& node, std::vector<int64_t>& values) const {
  return read_list(node, description(), values,
                   [](const toml::node& one, int64_t& value) { return Whole{}.read(one, value); });
}

std::string Ranges::read(const toml::node& node, StepRanges& values) const {
  return read_list(node, description(), values, [](const toml::node& one, auto& range) -> std::string {
    const toml::array* pair = one.as_array();
    const bool is_pair =
        pair != nullptr && pair->size() == 2 && pair->get(0)->is_integer() && pair->get(1)->is_integer();
    if (!is_pair) return "must be a pair of steps, such as [10, 12]";
    range = {*pair->get(0)->value<int64_t>(), *pair->get(1)->value<int64_t>()};
    if (range.first < 1) return "begins before step 1, the first one";
    if (range.first > range.second)
      return fmt::format("ends before it begins; write [{1}, {0}]", range.first, range.second);
    return "";
  });
}

std::string GroupOfRanks::description() const {
  return Choice<ShardGroup::Word>{}.description() + ", or a number of ranks";
}

std::string GroupOfRanks::read(const toml::node& node, ShardGroup& group) const {
  if (node.is_string()) {
    ShardGroup::Word word = {};
    std::string problem = Choice<ShardGroup::Word>{}.read(node, word);
    if (problem.empty()) group = {.word = word};
    return problem.empty() ? "" : "must be " + description();
  }
  int64_t ranks = 0;
  if (!node.is_integer() || !Whole{1, 1 << 24}.read(node, ranks).empty()) return "must be " + description();
  group = {.word = ShardGroup::Word::number, .number = ranks};
  return "";
}

std::string LayersOfStages::description() const {
  return Choice<RecomputeLayers::Word>{}.description() + ", a number of layers, or a list with one for each stage";
}

std::string LayersOfStages::read(const toml::node& node, RecomputeLayers& layers) const {
  using Word = RecomputeLayers::Word;
  if (node.is_string()) {
    Word word = {};
    if (!Choice<Word>{}.read(node, word).empty()) return "must be " + description();
    layers = {.word = word};
    return "";
  }
  std::vector<int64_t> numbers(1);
  const bool is_number = node.is_integer() && Whole{}.read(node, numbers.front()).empty();
  if (!is_number && !WholeNumbers{}.read(node, numbers).empty()) return "must be " + description();
  if (numbers.empty()) return "has no number; give one for each stage, or \"all\"";
  layers = {.word = Word::numbers, .numbers = std::move(numbers)};
  return "";
}

}  // namespace terrace::config
