// Parses frames of extended XYZ.
#include "terrace/data/graphs/formats/extended_xyz.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/json.h"
#include "terrace/base/plural.h"
#include "terrace/data/graphs/elements.h"
#include "terrace/data/graphs/formats/text_numbers.h"

namespace terrace::data {
namespace {

constexpr std::string_view default_columns = "species:S:1:pos:R:3";

bool is_blank_letter(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }

char closing_of(char letter) {
  switch (letter) {
    case '"':
    case '\'':
      return letter;
    case '{':
      return '}';
    case '[':
      return ']';
    default:
      return '\0';
  }
}

std::optional<double> logical_of(std::string_view word) {
  if (word == "T" || word == "true" || word == "True" || word == "TRUE") return 1;
  if (word == "F" || word == "false" || word == "False" || word == "FALSE") return 0;
  return std::nullopt;
}

// Appends the numbers of nested lists; false where anything else is in them.
bool add_numbers(const Json& json, std::vector<double>& numbers) {
  if (json.is_array()) {
    return std::ranges::all_of(json, [&](const Json& one) { return add_numbers(one, numbers); });
  }
  if (!json.is_number() && !json.is_boolean()) return false;
  numbers.push_back(json.is_boolean() ? static_cast<double>(json.get<bool>()) : json.get<double>());
  return true;
}

// All numbers or all logicals, between blanks or commas; nothing for a text.
std::vector<double> numbers_in_value(std::string value) {
  std::vector<double> numbers;
  if (constexpr std::string_view json = "_JSON "; value.starts_with(json)) {
    const Json parsed = parse_json_or_discard(std::string_view(value).substr(json.size()));
    return !parsed.is_discarded() && add_numbers(parsed, numbers) ? numbers : std::vector<double>{};
  }
  std::ranges::replace(value, ',', ' ');
  std::vector<std::string_view> words;
  split_words(value, words);
  for (const std::string_view word : words) {
    const std::optional<double> logical = logical_of(word);
    const std::optional<double> number = logical ? logical : number_of(word);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

enum class ColumnUse { species, atomic_number, position, property, text };

struct Column {
  std::string name = {};
  char type = 'R';  // real, integer, string, logical
  size_t width = 1;
  ColumnUse use = ColumnUse::property;
  PropertyValues* values = nullptr;
};

ColumnUse use_of(const Column& column) {
  const std::string& name = column.name;
  if (name == "species" || name == "symbols") return ColumnUse::species;
  if (name == "Z" || name == "numbers") return ColumnUse::atomic_number;
  if (name == "pos" || name == "positions") return ColumnUse::position;
  return column.type == 'S' ? ColumnUse::text : ColumnUse::property;
}

// Throws UserError for a use with another width or type than it has.
void check_column(const Column& column) {
  const auto expect = [&](char type, size_t width) {
    if (column.type == type && column.width == width) return;
    throw UserError::of("line 2: Properties has {0}:{1}:{2}, and {0} has to be {0}:{3}:{4}", column.name, column.type,
                        column.width, type, width);
  };
  if (column.use == ColumnUse::species) expect('S', 1);
  if (column.use == ColumnUse::atomic_number) expect('I', 1);
  if (column.use == ColumnUse::position) expect('R', 3);
}

std::vector<Column> columns_of(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char letter : text) {
    if (letter == ':') {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  if (parts.size() % 3 != 0) {
    throw UserError::of("line 2: Properties={} is no list of NAME:TYPE:COLUMNS, such as {}", text, default_columns);
  }
  std::vector<Column> columns;
  for (size_t i = 0; i < parts.size(); i += 3) {
    const std::optional<int64_t> width = whole_number_of(parts[i + 2]);
    const bool has_type =
        parts[i + 1].size() == 1 && std::string_view("RISL").find(parts[i + 1][0]) != std::string::npos;
    if (!has_type || !width || *width < 1 || *width > 1'000'000 || parts[i].empty()) {
      throw UserError::of(
          "line 2: Properties has {}:{}:{}; give NAME:TYPE:COLUMNS with the type R, I, S or L and at "
          "least one column",
          parts[i], parts[i + 1], parts[i + 2]);
    }
    Column column{.name = parts[i], .type = parts[i + 1][0], .width = static_cast<size_t>(*width)};
    column.use = use_of(column);
    check_column(column);
    const auto is_same = [&](const Column& other) {
      return other.name == column.name || (other.use == column.use && column.use == ColumnUse::position);
    };
    if (std::ranges::any_of(columns, is_same)) throw UserError::of("line 2: Properties names {} twice", column.name);
    columns.push_back(std::move(column));
  }
  return columns;
}

bool has_use(const std::vector<Column>& columns, ColumnUse use) {
  return std::ranges::find(columns, use, &Column::use) != columns.end();
}

// One frame.
class FrameReader {
 public:
  explicit FrameReader(std::string_view frame) : lines_(frame) {}

  Structure read() {
    while (words_.empty()) split_words(*lines_.next(), words_);
    atoms_ = whole_number_of(words_[0]).value();
    read_keys(lines_.next().value_or(""));
    prepare_columns();
    for (int64_t atom = 0; atom < atoms_; ++atom) read_atom(*lines_.next());
    return std::move(structure_);
  }

 private:
  void read_keys(std::string_view line) {
    std::string columns(default_columns);
    bool has_periodicity = false, has_cell = false;
    const std::vector<KeyAndValue> pairs = keys_and_values(line);
    // A line of words alone is a remark, as in files of plain XYZ.
    if (std::ranges::none_of(pairs, [](const KeyAndValue& pair) { return pair.value.has_value(); })) {
      columns_ = columns_of(columns);
      return;
    }
    for (const KeyAndValue& pair : pairs) {
      const std::string value = pair.value.value_or("T");
      if (pair.key == "Properties") {
        columns = value;
      } else if (pair.key == "Lattice") {
        read_cell(value);
        has_cell = true;
      } else if (pair.key == "pbc") {
        read_periodicity(value);
        has_periodicity = true;
      } else {
        add_property(pair.key, value);
      }
    }
    if (has_cell && !has_periodicity) structure_.cell.periodic = {true, true, true};
    columns_ = columns_of(columns);
  }

  void read_cell(const std::string& value) {
    const std::vector<double> numbers = numbers_in_value(value);
    if (numbers.size() != 9) {
      throw UserError::of("line 2: Lattice has {} and needs 9: the vectors a, b and c",
                          counted(numbers.size(), "number"));
    }
    for (size_t k = 0; k < 9; ++k) structure_.cell.vectors[k / 3][k % 3] = numbers[k];
  }

  void read_periodicity(const std::string& value) {
    const std::vector<double> numbers = numbers_in_value(value);
    if (numbers.size() != 3 || std::ranges::any_of(numbers, [](double one) { return one != 0 && one != 1; })) {
      throw UserError::of("line 2: pbc=\"{}\" is not three of T and F", value);
    }
    for (size_t k = 0; k < 3; ++k) structure_.cell.periodic[k] = numbers[k] == 1;
  }

  void add_property(const std::string& key, const std::string& value) {
    std::vector<double> numbers = numbers_in_value(value);
    if (key == "stress" || key == "virial") {
      if (numbers.size() != 9) {
        throw UserError::of("line 2: {} has {} and needs 9", key, counted(numbers.size(), "number"));
      }
      // Written by columns.
      for (const auto& [a, b] : {std::pair(1, 3), std::pair(2, 6), std::pair(5, 7)}) {
        std::swap(numbers[static_cast<size_t>(a)], numbers[static_cast<size_t>(b)]);
      }
    }
    if (numbers.empty()) return;
    const auto width = static_cast<int64_t>(numbers.size());
    structure_.of_structure[key] = {.width = width, .values = std::move(numbers)};
  }

  void prepare_columns() {
    if (!has_use(columns_, ColumnUse::position)) throw UserError("line 2: Properties has no pos:R:3");
    if (!has_use(columns_, ColumnUse::species) && !has_use(columns_, ColumnUse::atomic_number)) {
      throw UserError("line 2: Properties has neither species:S:1 nor Z:I:1");
    }
    for (Column& column : columns_) {
      wanted_ += column.width;
      // Where both are there the number counts.
      const bool is_second = column.use == ColumnUse::species && has_use(columns_, ColumnUse::atomic_number);
      if (is_second) column.use = ColumnUse::text;
      if (column.use != ColumnUse::property) continue;
      column.values = &structure_.of_atoms[column.name];
      column.values->width = static_cast<int64_t>(column.width);
      column.values->values.reserve(static_cast<size_t>(atoms_) * column.width);
    }
    structure_.species.reserve(static_cast<size_t>(atoms_));
    structure_.positions.reserve(3 * static_cast<size_t>(atoms_));
  }

  void read_atom(std::string_view line) {
    split_words(line, words_);
    if (words_.size() != wanted_) {
      throw UserError::of("line {} has {}, and Properties wants {}", lines_.number(), counted(words_.size(), "column"),
                          wanted_);
    }
    size_t at = 0;
    for (const Column& column : columns_) {
      for (size_t i = 0; i < column.width; ++i) take(column, words_[at++]);
    }
  }

  void take(const Column& column, std::string_view word) {
    switch (column.use) {
      case ColumnUse::text:
        return;
      case ColumnUse::species:
        return take_element(atomic_number(word), word);
      case ColumnUse::atomic_number: {
        const std::optional<int64_t> number = whole_number_of(word);
        const bool is_element = number && *number >= 1 && *number <= most_element;
        return take_element(is_element ? std::optional(static_cast<uint8_t>(*number)) : std::nullopt, word);
      }
      case ColumnUse::position:
        return structure_.positions.push_back(number_in(column, word));
      case ColumnUse::property:
        return column.values->values.push_back(number_in(column, word));
    }
  }

  void take_element(std::optional<uint8_t> element, std::string_view word) {
    if (!element) {
      throw UserError::of("line {}: {} is no element; give a symbol such as Fe, or a number from 1 to {} in a column Z",
                          lines_.number(), word, most_element);
    }
    structure_.species.push_back(*element);
  }

  double number_in(const Column& column, std::string_view word) const {
    std::optional<double> number = column.type == 'L' ? logical_of(word) : number_of(word);
    if (column.type == 'I' && !whole_number_of(word)) number.reset();
    if (number) return *number;
    throw UserError::of("line {}: {} has \"{}\", which is no {}", lines_.number(), column.name, word,
                        column.type == 'L'   ? "T or F"
                        : column.type == 'I' ? "whole number"
                                             : "number");
  }

  TextLines lines_;
  int64_t atoms_ = 0;
  size_t wanted_ = 0;
  std::vector<Column> columns_;
  std::vector<std::string_view> words_;
  Structure structure_;
};

// Collects the characters of keys and values.
class PairsReader {
 public:
  std::vector<KeyAndValue> read(std::string_view line) {
    char closing = '\0';
    for (size_t at = 0; at < line.size(); ++at) {
      const char letter = line[at];
      if (letter == '\\' && at + 1 < line.size()) {
        text() += line[++at];
        begun_ = true;
      } else if (closing != '\0') {
        if (letter == closing) {
          closing = '\0';
        } else {
          text() += letter;
        }
      } else if (closing_of(letter) != '\0') {
        closing = closing_of(letter);
        begun_ = true;
      } else if (is_blank_letter(letter)) {
        end_pair();
      } else if (letter == '=' && begun_ && !pair_.value) {
        pair_.value = "";
      } else {
        text() += letter;
        begun_ = true;
      }
    }
    if (closing != '\0')
      throw UserError::of("line 2: {} is opened and not closed", closing == '}' ? '{' : closing == ']' ? '[' : closing);
    end_pair();
    return std::move(pairs_);
  }

 private:
  std::string& text() { return pair_.value ? *pair_.value : pair_.key; }

  void end_pair() {
    if (begun_) pairs_.push_back(std::exchange(pair_, {}));
    begun_ = false;
  }

  KeyAndValue pair_;
  bool begun_ = false;
  std::vector<KeyAndValue> pairs_;
};

}  // namespace

std::vector<KeyAndValue> keys_and_values(std::string_view line) { return PairsReader().read(line); }

size_t frame_bytes(std::string_view text, bool is_all) {
  TextLines lines(text);
  std::vector<std::string_view> words;
  std::string_view first;
  while (words.empty()) {
    const std::optional<std::string_view> line = lines.next();
    if (!line) return 0;
    first = *line;
    split_words(first, words);
  }
  // The last line may go on.
  if (!is_all && lines.position() >= text.size()) return 0;
  const std::optional<int64_t> atoms = whole_number_of(words[0]);
  if (words.size() != 1 || !atoms || *atoms < 0) {
    throw UserError::of("begins with \"{}\", and not with the number of its atoms", first.substr(0, 60));
  }
  for (int64_t line = -1; line < *atoms; ++line) {
    if (lines.next()) continue;
    // A frame without atoms may end without keys.
    if (is_all && *atoms == 0) break;
    if (!is_all) return 0;
    throw UserError::of("ends after {} of {}", std::max<int64_t>(line, 0),
                        counted(static_cast<uint64_t>(*atoms), "atom"));
  }
  const bool may_go_on = !is_all && lines.position() >= text.size();
  return may_go_on ? 0 : std::min(lines.position(), text.size());
}

Structure parse_extended_xyz(std::string_view frame) { return FrameReader(frame).read(); }

}  // namespace terrace::data
