// Parses frames of extended XYZ.
#include "terrace/data/graphs/formats/extended_xyz.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/lower_case.h"
#include "terrace/base/text/plural.h"
#include "terrace/data/graphs/formats/text_numbers.h"
#include "terrace/data/graphs/formats/xyz_keys.h"
#include "terrace/data/graphs/structures/declared_units.h"
#include "terrace/data/graphs/structures/elements.h"
#include "terrace/data/graphs/structures/quantities.h"

namespace terrace::data {
namespace {

constexpr std::string_view default_columns = "species:S:1:pos:R:3";

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

// Throws UserError where a column has another width or type than its use needs.
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

// ASE writes a symbol's first letter large and the others small, whatever the file has.
std::optional<uint8_t> element_in_any_case(std::string_view word) {
  std::string symbol = lower_case(word);
  if (!symbol.empty()) symbol[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(symbol[0])));
  return atomic_number(symbol);
}

// ASE takes other words, such as true, for false.
std::optional<double> logical_in_column(std::string_view word) {
  if (word == "T" || word == "True") return 1;
  if (word == "F" || word == "False") return 0;
  return std::nullopt;
}

bool begins_vector(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(" \t"), line.size())).starts_with("VEC");
}

// Reads one frame.
class FrameReader {
 public:
  explicit FrameReader(std::string_view frame) : lines_(frame) {}

  Structure read() {
    while (words_.empty()) split_words(*lines_.next(), words_);
    atoms_ = whole_number_of(words_[0]).value();
    const std::string line = with_plain_blanks(lines_.next().value_or(""));
    prepare_columns(read_keys(line));
    for (int64_t atom = 0; atom < atoms_; ++atom) read_atom(with_plain_blanks(*lines_.next()));
    read_vectors(line);
    convert_declared_units(declared_, structure_);
    for (const auto& [name, unit] : noted_) {
      if (structure_.of_structure.contains(name) || structure_.of_atoms.contains(name)) structure_.units[name] = unit;
    }
    return std::move(structure_);
  }

 private:
  // Reads the keys, and returns the list of columns.
  std::string read_keys(std::string_view line) {
    std::string columns(default_columns);
    bool has_periodicity = false, has_cell = false;
    const std::vector<KeyAndValue> pairs = keys_and_values(line);
    // A line of words alone is a remark, as in files of plain XYZ.
    const bool is_remark = std::ranges::none_of(pairs, [](const KeyAndValue& pair) { return pair.value.has_value(); });
    for (const KeyAndValue& pair : pairs) {
      const std::string value = pair.value.value_or("T");
      if (pair.key == "pbc") {
        read_periodicity(value);
        has_periodicity = true;
      } else if (is_remark) {
        continue;
      } else if (pair.key == "Properties") {
        columns = value;
      } else if (pair.key == "Lattice") {
        read_cell(value);
        has_cell = true;
      } else {
        check_capitals(pair.key, pairs);
        if (read_unit(pair.key, value)) continue;
        add_property(pair.key, value, pair.value.has_value());
        note_unit(pair.key, value);
      }
    }
    if (has_cell && !has_periodicity) structure_.cell.periodic = {true, true, true};
    return columns;
  }

  // ASE takes lattice= for any key, and the structure would have no cell.
  static void check_capitals(const std::string& key, const std::vector<KeyAndValue>& pairs) {
    const std::string small = lower_case(key);
    for (const char* name : {"Lattice", "Properties", "pbc"}) {
      const std::string of_name = lower_case(name);
      if (small != of_name || std::ranges::find(pairs, name, &KeyAndValue::key) != pairs.end()) continue;
      throw UserError::of("line 2: {}= is not {}=, and ASE would read no {} of it; write {}=", key, name,
                          of_name == "lattice" ? "cell" : "such thing", name);
    }
  }

  void read_cell(const std::string& value) {
    const ValueOfKey given = value_of_key("Lattice", value);
    if (given.numbers.size() != 9 || given.are_logicals) {
      throw UserError::of("line 2: Lattice has {} and needs 9: the vectors a, b and c",
                          counted(given.are_logicals ? 0 : given.numbers.size(), "number"));
    }
    for (size_t k = 0; k < 9; ++k) structure_.cell.vectors[k / 3][k % 3] = given.numbers[k];
  }

  // Reads pbc, in which one T or F stands for all three directions.
  void read_periodicity(const std::string& value) {
    std::vector<double> numbers = value_of_key("pbc", value).numbers;
    if (numbers.size() == 1) numbers.resize(3, numbers[0]);
    if (numbers.size() != 3 || std::ranges::any_of(numbers, [](double one) { return one != 0 && one != 1; })) {
      throw UserError::of("line 2: pbc=\"{}\" is not three of T and F, nor one for all", value);
    }
    for (size_t k = 0; k < 3; ++k) structure_.cell.periodic[k] = numbers[k] == 1;
  }

  // Reads a unit. Returns whether the key is that of a unit, such as energy-unit or forces_units.
  bool read_unit(const std::string& key, const std::string& value) {
    std::optional<std::string> of = property_of_unit_key(key);
    if (!of) return false;
    declared_[*std::move(of)] = value;
    return true;
  }

  // Notes the unit of a property that is not converted; formula_units=4 is a property itself.
  void note_unit(const std::string& key, const std::string& value) {
    std::optional<std::string> of = name_in_unit_key(key);
    if (of && !structure_.of_structure.contains(key)) noted_[*std::move(of)] = value;
  }

  void add_property(const std::string& key, const std::string& value, bool has_value) {
    structure_.of_structure.erase(key);  // of a key that is given twice the last value counts
    ValueOfKey given = value_of_key(key, value);
    const PhysicalQuantity quantity = quantity_of(key);
    const bool has_to_be_numbers = quantity != PhysicalQuantity::other || key == "dipole" || key == "magmom";
    if (has_to_be_numbers && (given.numbers.empty() || given.are_logicals)) {
      throw UserError::of("line 2: {}", !given.note.empty() ? given.note
                                        : has_value         ? fmt::format("{}={} is no number", key, value)
                                                            : key + " without a value is no number");
    }
    if (!given.note.empty()) structure_.notes.push_back(given.note);
    std::vector<double>& numbers = given.numbers;
    if (quantity == PhysicalQuantity::stress || quantity == PhysicalQuantity::virial) {
      const bool is_of_ase = key == "stress" || key == "virial";
      if (numbers.size() == 6) {
        numbers = full_tensor(numbers);
      } else if (is_of_ase && numbers.size() != 9) {
        throw UserError::of("line 2: {} has {} and needs 9, or 6 in the order xx, yy, zz, yz, xz, xy", key,
                            counted(numbers.size(), "number"));
      } else if (is_of_ase) {
        // These nine numbers are written by columns.
        for (const auto& [a, b] : {std::pair(1, 3), std::pair(2, 6), std::pair(5, 7)}) {
          std::swap(numbers[static_cast<size_t>(a)], numbers[static_cast<size_t>(b)]);
        }
      }
    }
    if (numbers.empty()) return;
    const auto width = static_cast<int64_t>(numbers.size());
    structure_.of_structure[key] = {.width = width, .values = std::move(numbers)};
  }

  // Reads the vectors of the cell that ADF's files have behind the atoms. ASE then takes the second line for a remark.
  void read_vectors(const std::string& line) {
    size_t vectors = 0;
    for (std::optional<std::string_view> next = lines_.next(); next; next = lines_.next(), ++vectors) {
      split_words(*next, words_);
      const bool is_next = words_.size() == 4 && words_[0] == fmt::format("VEC{}", vectors + 1);
      for (size_t axis = 0; axis < 3 && is_next; ++axis) {
        const std::optional<double> number = python_number(words_[axis + 1]);
        if (!number) throw UserError::of("line {}: \"{}\" is no number", lines_.number(), words_[axis + 1]);
        structure_.cell.vectors[vectors][axis] = *number;
      }
      if (!is_next) throw UserError::of("line {}: not VEC{} with three numbers", lines_.number(), vectors + 1);
      structure_.cell.periodic[vectors] = true;
    }
    if (vectors > 0 && line.find('=') != std::string::npos) {
      throw UserError("line 2: has keys, and the cell stands in lines VEC1 to VEC3; give a Lattice instead of these");
    }
  }

  void prepare_columns(std::string_view columns) {
    columns_ = columns_of(columns);
    if (!has_use(columns_, ColumnUse::position)) throw UserError("line 2: Properties has no pos:R:3");
    if (!has_use(columns_, ColumnUse::species) && !has_use(columns_, ColumnUse::atomic_number)) {
      throw UserError("line 2: Properties has neither species:S:1 nor Z:I:1");
    }
    for (Column& column : columns_) {
      wanted_ += column.width;
      // Where a frame has symbols and atomic numbers, the numbers count.
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
    if (words_.size() < wanted_) {
      throw UserError::of("line {} has {}, and Properties wants {}", lines_.number(), counted(words_.size(), "column"),
                          wanted_);
    }
    if (words_.size() > wanted_ && !std::exchange(has_further_columns_, true)) {
      structure_.notes.push_back(fmt::format(
          "columns behind the {} that Properties names are left out; name them in Properties to read them", wanted_));
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
        return take_element(element_in_any_case(word), word);
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
    std::optional<double> number = column.type == 'L' ? logical_in_column(word) : python_number(word);
    if (column.type == 'I' && word.find_first_not_of("0123456789_+-") != std::string_view::npos) number.reset();
    if (number) return *number;
    throw UserError::of("line {}: {} has \"{}\", which is no {}", lines_.number(), column.name, word,
                        column.type == 'L'   ? "T or F"
                        : column.type == 'I' ? "whole number"
                                             : "number");
  }

  TextLines lines_;
  int64_t atoms_ = 0;
  size_t wanted_ = 0;
  bool has_further_columns_ = false;  // and a note says so
  std::vector<Column> columns_;
  std::vector<std::string_view> words_;
  // Units by the name of what has them: those that are converted, and others.
  std::map<std::string, std::string> declared_, noted_;
  Structure structure_;
};

}  // namespace

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
  // The last line may go on in the rest of the file.
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
  // Lines with the vectors of the cell may follow, and of the last line there may be more.
  size_t end = lines.position();
  while (end < text.size()) {
    const std::string_view next = text.substr(end);
    const bool is_whole = is_all || next.find('\n') != std::string_view::npos;
    if (!is_whole) return 0;
    if (!begins_vector(next)) break;
    lines.next();
    end = lines.position();
  }
  const bool may_go_on = !is_all && end >= text.size();
  return may_go_on ? 0 : std::min(end, text.size());
}

Structure parse_extended_xyz(std::string_view frame) { return FrameReader(frame).read(); }

}  // namespace terrace::data
