// Parses CIF and multiplies sites by symmetry.
#include "terrace/data/graphs/formats/cif.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/lower_case.h"
#include "terrace/base/text/plural.h"
#include "terrace/data/graphs/formats/cif_elements.h"
#include "terrace/data/graphs/formats/space_groups.h"
#include "terrace/data/graphs/formats/text_numbers.h"

namespace terrace::data {
namespace {

struct CifToken {
  std::string text = {};
  bool is_quoted = false;  // then it is a value, whatever it looks like
  int64_t line = 0;
};

bool is_white(char letter) { return letter == ' ' || letter == '\t'; }

// Adds the tokens of a line, up to a comment. A quote ends where white space follows it.
void add_tokens(std::string_view line, int64_t number, std::vector<CifToken>& tokens) {
  size_t at = 0;
  while (true) {
    while (at < line.size() && is_white(line[at])) ++at;
    if (at >= line.size() || line[at] == '#') return;
    const char first = line[at];
    if (first != '\'' && first != '"') {
      const size_t end = std::min(line.find_first_of(" \t", at), line.size());
      tokens.push_back({std::string(line.substr(at, end - at)), false, number});
      at = end;
      continue;
    }
    size_t end = line.find(first, at + 1);
    while (end != std::string_view::npos && end + 1 < line.size() && !is_white(line[end + 1])) {
      end = line.find(first, end + 1);
    }
    // A quote that is not closed, as in titles and names of authors, goes on to the end of the line.
    end = std::min(end, line.size());
    tokens.push_back({std::string(line.substr(at + 1, end - at - 1)), true, number});
    at = end + 1;
  }
}

std::vector<CifToken> tokens_of(std::string_view text) {
  std::vector<CifToken> tokens;
  TextLines lines(text);
  while (const std::optional<std::string_view> line = lines.next()) {
    if (!line->starts_with(';')) {
      add_tokens(*line, lines.number(), tokens);
      continue;
    }
    const int64_t began = lines.number();
    std::string value(line->substr(1));
    std::optional<std::string_view> next = lines.next();
    for (; next && !next->starts_with(';'); next = lines.next()) value.append("\n").append(*next);
    if (!next) throw UserError::of("line {} begins a text in semicolons that does not end", began);
    tokens.push_back({std::move(value), true, began});
  }
  return tokens;
}

bool is_tag(const CifToken& token) { return !token.is_quoted && token.text.starts_with('_'); }

bool is_word(const CifToken& token, std::string_view word) {
  return !token.is_quoted && lower_case(token.text.substr(0, word.size())) == word;
}

bool is_value(const CifToken& token) {
  return !is_tag(token) && !is_word(token, "loop_") && !is_word(token, "data_") && !is_word(token, "global_");
}

class BlocksReader {
 public:
  explicit BlocksReader(std::vector<CifToken> tokens) : tokens_(std::move(tokens)) {}

  std::vector<CifBlock> read() {
    while (at_ < tokens_.size()) {
      const CifToken& token = tokens_[at_];
      if (is_word(token, "data_")) {
        blocks_.push_back({.name = token.text.substr(5)});
        ++at_;
      } else if (blocks_.empty()) {
        throw UserError::of("line {} has \"{}\" before the first data_ block; is this CIF?", token.line,
                            token.text.substr(0, 40));
      } else if (is_word(token, "loop_")) {
        read_loop();
      } else if (is_tag(token)) {
        read_pair();
      } else {
        throw UserError::of("line {} has the value \"{}\" of no tag", token.line, token.text.substr(0, 40));
      }
    }
    return std::move(blocks_);
  }

 private:
  void read_pair() {
    const CifToken& tag = tokens_[at_++];
    if (at_ >= tokens_.size() || !is_value(tokens_[at_])) {
      throw UserError::of("line {}: {} has no value", tag.line, tag.text);
    }
    blocks_.back().tags[lower_case(tag.text)] = {tokens_[at_++].text};
  }

  void read_loop() {
    const int64_t line = tokens_[at_++].line;
    std::vector<std::vector<std::string>*> columns;
    std::vector<std::string> names;
    for (; at_ < tokens_.size() && is_tag(tokens_[at_]); ++at_) {
      names.push_back(lower_case(tokens_[at_].text));
      columns.push_back(&blocks_.back().tags[names.back()]);
      columns.back()->clear();
    }
    size_t values = 0;
    for (; at_ < tokens_.size() && is_value(tokens_[at_]); ++at_, ++values) {
      if (columns.empty()) break;
      columns[values % columns.size()]->push_back(tokens_[at_].text);
    }
    if (columns.empty()) throw UserError::of("line {} begins a loop without tags", line);
    if (values % columns.size() == 0) return;
    // Such a loop does no harm where it has nothing of the crystal.
    for (const std::string& name : names) {
      blocks_.back().problems[name] =
          fmt::format("line {} begins a loop of {} with {}, which is no number of whole rows", line,
                      counted(columns.size(), "column"), counted(values, "value"));
    }
  }

  std::vector<CifToken> tokens_;
  size_t at_ = 0;
  std::vector<CifBlock> blocks_;
};

// Returns the values of the first of these tags that is there; null where none is.
const std::vector<std::string>* find_tag(const CifBlock& block, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto problem = block.problems.find(name); problem != block.problems.end()) {
      throw UserError(problem->second);
    }
    if (const auto found = block.tags.find(name); found != block.tags.end() && !found->second.empty()) {
      return &found->second;
    }
  }
  return nullptr;
}

// Reads a number, which may be followed by its uncertainty: 3.52(4).
double cif_number(const std::string& tag, const std::string& word) {
  const std::optional<double> number = number_of(std::string_view(word).substr(0, word.find('(')));
  if (!number || !std::isfinite(*number)) throw UserError::of("{} is \"{}\", which is no number", tag, word);
  return *number;
}

double cif_number(const CifBlock& block, const char* tag) {
  const std::vector<std::string>* values = find_tag(block, {tag});
  if (values == nullptr) throw UserError::of("has no {}", tag);
  return cif_number(tag, values->front());
}

Cell cell_of_block(const CifBlock& block) {
  const Vector3 lengths = {cif_number(block, "_cell_length_a"), cif_number(block, "_cell_length_b"),
                           cif_number(block, "_cell_length_c")};
  const Vector3 angles = {cif_number(block, "_cell_angle_alpha"), cif_number(block, "_cell_angle_beta"),
                          cif_number(block, "_cell_angle_gamma")};
  const Cell cell = cell_of_lengths(lengths, angles);
  std::string problem = problem_of(cell);
  if (*std::ranges::min_element(lengths) <= 0) problem = "a length is not greater than 0";
  if (!problem.empty()) {
    throw UserError::of("has the lengths {:g} and the angles {:g} of no cell: {}", fmt::join(lengths, ", "),
                        fmt::join(angles, ", "), problem);
  }
  return cell;
}

// Returns the first value of the first of these tags that is there; "" for what is unknown.
std::string first_text(const CifBlock& block, std::initializer_list<const char*> names) {
  const std::vector<std::string>* values = find_tag(block, names);
  return values == nullptr || values->front() == "?" || values->front() == "." ? "" : values->front();
}

// Throws UserError where an operation does not leave the cell as it is: a group of the tables then has other axes.
void check_keeps_cell(const SymmetryOperation& operation, const Cell& cell, const std::string& name) {
  std::array<Vector3, 3> images = {};
  for (size_t column = 0; column < 3; ++column) {
    for (size_t row = 0; row < 3; ++row) {
      for (size_t axis = 0; axis < 3; ++axis) {
        images[column][axis] += operation.rotation[row][column] * cell.vectors[row][axis];
      }
    }
  }
  for (size_t a = 0; a < 3; ++a) {
    for (size_t b = 0; b < 3; ++b) {
      const double lengths = length(cell.vectors[a]) * length(cell.vectors[b]);
      if (std::abs(dot(images[a], images[b]) - dot(cell.vectors[a], cell.vectors[b])) < 0.01 * lengths) continue;
      throw UserError::of(
          "has the space group {} and a cell that has not its symmetry; list the operations "
          "(_symmetry_equiv_pos_as_xyz)",
          name);
    }
  }
}

std::vector<SymmetryOperation> operations_in(const CifBlock& block, const Cell& cell) {
  std::vector<SymmetryOperation> operations;
  const auto tags = {"_space_group_symop_operation_xyz", "_space_group_symop.operation_xyz",
                     "_symmetry_equiv_pos_as_xyz"};
  if (!first_text(block, tags).empty()) {
    for (const std::string& text : *find_tag(block, tags)) operations.push_back(parse_symmetry_operation(text));
    return operations;
  }
  NamedSpaceGroup group{.hall = first_text(block, {"_space_group_name_hall", "_symmetry_space_group_name_hall"}),
                        .name = first_text(block, {"_space_group_name_h-m_alt", "_symmetry_space_group_name_h-m"})};
  const std::string number =
      first_text(block, {"_space_group.it_number", "_space_group_it_number", "_symmetry_int_tables_number"});
  const std::optional<int64_t> of_tables = whole_number_of(number);
  if (!number.empty() && (!of_tables || *of_tables < 1 || *of_tables > 230)) {
    throw UserError::of("has a space group with the number \"{}\"; there are 1 to 230", number);
  }
  group.number = of_tables.value_or(0);
  std::string plain = lower_case(group.name);
  std::erase(plain, ' ');
  const bool is_p1 = group.number <= 1 && (plain.empty() || plain == "p1") && group.hall.empty();
  if (is_p1) return {parse_symmetry_operation("x,y,z")};
  group.alpha = cif_number(block, "_cell_angle_alpha");
  group.gamma = cif_number(block, "_cell_angle_gamma");
  operations = operations_of(group);
  const std::string name = !group.name.empty() ? group.name : !group.hall.empty() ? group.hall : number;
  for (const SymmetryOperation& operation : operations) check_keeps_cell(operation, cell, name);
  return operations;
}

double wrapped_fraction(double fraction) {
  const double wrapped = fraction - std::floor(fraction);
  return wrapped < 1 ? wrapped : 0;
}

bool is_same_site(const Vector3& a, const Vector3& b) {
  for (size_t k = 0; k < 3; ++k) {
    const double apart = std::abs(a[k] - b[k]);
    if (std::min(apart, 1 - apart) >= same_site_fraction) return false;
  }
  return true;
}

std::vector<Vector3> images_of(const Vector3& site, const std::vector<SymmetryOperation>& operations) {
  std::vector<Vector3> images;
  for (const SymmetryOperation& operation : operations) {
    Vector3 image;
    for (size_t k = 0; k < 3; ++k) {
      image[k] = wrapped_fraction(dot(operation.rotation[k], site) + operation.translation[k]);
    }
    const auto is_known = [&](const Vector3& known) { return is_same_site(known, image); };
    if (std::ranges::none_of(images, is_known)) images.push_back(image);
  }
  return images;
}

// Takes a term such as "-x", "+1/2" or "0.25" off the text.
void take_term(std::string_view& text, std::array<double, 3>& row, double& translation, std::string_view whole) {
  const auto refuse = [&] {
    throw UserError::of("the symmetry operation \"{}\" is not like x,y,z or 1/2-x,y+0.25,-z", whole);
  };
  double sign = 1;
  if (text.starts_with('+') || text.starts_with('-')) {
    sign = text.starts_with('-') ? -1 : 1;
    text.remove_prefix(1);
  }
  double factor = 1;
  bool has_number = false;
  const size_t digits = std::min(text.find_first_not_of("0123456789./"), text.size());
  if (digits > 0) {
    const std::string_view number = text.substr(0, digits);
    const size_t slash = number.find('/');
    const std::optional<double> over = number_of(number.substr(0, slash));
    const std::optional<double> under =
        slash == std::string_view::npos ? std::optional(1.0) : number_of(number.substr(slash + 1));
    if (!over || !under || *under == 0) return refuse();
    factor = *over / *under;
    has_number = true;
    text.remove_prefix(digits);
    if (text.starts_with('*')) text.remove_prefix(1);
  }
  if (!text.empty() && text[0] >= 'x' && text[0] <= 'z') {
    row[static_cast<size_t>(text[0] - 'x')] += sign * factor;
    text.remove_prefix(1);
  } else if (has_number) {
    translation += sign * factor;
  } else {
    refuse();
  }
  if (!text.empty() && text[0] != '+' && text[0] != '-') refuse();
}

void check_occupancies(const CifBlock& block) {
  const auto* occupancies = find_tag(block, {"_atom_site_occupancy"});
  if (occupancies == nullptr) return;
  for (const std::string& word : *occupancies) {
    if (word == "." || word == "?") continue;
    const double occupancy = cif_number("_atom_site_occupancy", word);
    if (occupancy < 1) {
      throw UserError::of("has a site with the occupancy {:g}; only structures of whole atoms are read", occupancy);
    }
  }
}

}  // namespace

std::vector<CifBlock> parse_cif(std::string_view text) { return BlocksReader(tokens_of(text)).read(); }

SymmetryOperation parse_symmetry_operation(std::string_view text) {
  std::string plain = lower_case(text);
  std::erase_if(plain, [](char letter) { return letter == ' ' || letter == '\'' || letter == '"'; });
  SymmetryOperation operation;
  std::string_view rest = plain;
  for (size_t k = 0; k < 3; ++k) {
    const size_t comma = rest.find(',');
    if ((comma == std::string_view::npos) != (k == 2)) {
      throw UserError::of("the symmetry operation \"{}\" has not three parts, such as x,y,z", text);
    }
    std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(k == 2 ? rest.size() : comma + 1);
    do {
      take_term(part, operation.rotation[k], operation.translation[k], text);
    } while (!part.empty());
  }
  return operation;
}

bool has_sites(const CifBlock& block) {
  return find_tag(block, {"_atom_site_fract_x", "_atom_site_cartn_x"}) != nullptr;
}

namespace {

std::optional<CifFormula> formula_in(const CifBlock& block) {
  return formula_of_text(first_text(block, {"_chemical_formula_sum"}));
}

std::vector<uint8_t> elements_in(const CifBlock& block) {
  std::vector<uint8_t> elements;
  if (const auto* types = find_tag(block, {"_atom_site_type_symbol"})) {
    for (const std::string& type : *types) elements.push_back(element_of_type(type));
    return elements;
  }
  const auto* labels = find_tag(block, {"_atom_site_label"});
  if (labels == nullptr) throw UserError("has neither _atom_site_type_symbol nor _atom_site_label");
  const std::optional<CifFormula> formula = formula_in(block);
  for (const std::string& label : *labels) elements.push_back(element_of_label(label, formula));
  return elements;
}

// Returns three coordinates of each site, by fractions of the cell.
std::vector<Vector3> sites_in(const CifBlock& block, const Cell& cell, size_t count) {
  const bool has_fractions = find_tag(block, {"_atom_site_fract_x"}) != nullptr;
  const std::array<const char*, 3> tags =
      has_fractions ? std::array{"_atom_site_fract_x", "_atom_site_fract_y", "_atom_site_fract_z"}
                    : std::array{"_atom_site_cartn_x", "_atom_site_cartn_y", "_atom_site_cartn_z"};
  std::vector<Vector3> sites(count);
  for (size_t k = 0; k < 3; ++k) {
    const auto* values = find_tag(block, {tags[k]});
    if (values == nullptr) throw UserError::of("has no {}", tags[k]);
    if (values->size() != count) throw UserError::of("{} has other rows than the names", tags[k]);
    for (size_t i = 0; i < count; ++i) sites[i][k] = cif_number(tags[k], (*values)[i]);
  }
  if (has_fractions) return sites;
  const SpanningCell spanning = spanning_cell(cell);
  for (Vector3& site : sites) {
    const Vector3 place = site;
    for (size_t k = 0; k < 3; ++k) site[k] = dot(place, spanning.reciprocal[k]);
  }
  return sites;
}

// Adds a note of hydrogens that the file names and gives no places.
void add_note_of_hydrogens(const CifBlock& block, Structure& crystal) {
  const auto hydrogens = static_cast<double>(std::ranges::count(crystal.species, uint8_t{1}));
  const double others = static_cast<double>(crystal.atoms()) - hydrogens;
  if (const std::optional<CifFormula> formula = formula_in(block); formula && formula->contains(1)) {
    double others_in_formula = 0;
    for (const auto& [element, count] : *formula) others_in_formula += element == 1 ? 0 : count;
    const double wanted = others_in_formula > 0 ? formula->at(1) * others / others_in_formula : 0;
    if (wanted > hydrogens + 0.5) {
      crystal.notes.push_back(
          fmt::format("hydrogens without places are left out: the formula {} means {:.0f} of them in the cell, and the "
                      "sites are {}",
                      first_text(block, {"_chemical_formula_sum"}), wanted, hydrogens));
      return;
    }
  }
  double attached = 0;
  if (const auto* counts = find_tag(block, {"_atom_site_attached_hydrogens"})) {
    for (const std::string& count : *counts) attached += number_of(count).value_or(0);
  }
  if (attached == 0 || hydrogens > 0) return;
  crystal.notes.push_back(
      fmt::format("hydrogens without places are left out: _atom_site_attached_hydrogens has {:g} of them", attached));
}

}  // namespace

Structure crystal_of(const CifBlock& block) {
  Structure crystal;
  crystal.cell = cell_of_block(block);
  const std::vector<SymmetryOperation> operations = operations_in(block, crystal.cell);
  check_occupancies(block);
  const std::vector<uint8_t> elements = elements_in(block);
  const std::vector<Vector3> sites = sites_in(block, crystal.cell, elements.size());
  std::vector<Vector3> places;
  const auto is_known = [&](const Vector3& place, uint8_t element) {
    for (size_t atom = 0; atom < places.size(); ++atom) {
      if (crystal.species[atom] == element && is_same_site(places[atom], place)) return true;
    }
    return false;
  };
  for (size_t i = 0; i < sites.size(); ++i) {
    for (const Vector3& image : images_of(sites[i], operations)) {
      if (is_known(image, elements[i])) continue;
      places.push_back(image);
      crystal.species.push_back(elements[i]);
      for (size_t axis = 0; axis < 3; ++axis) {
        double sum = 0;
        for (size_t k = 0; k < 3; ++k) sum += image[k] * crystal.cell.vectors[k][axis];
        crystal.positions.push_back(sum);
      }
    }
  }
  add_note_of_hydrogens(block, crystal);
  return crystal;
}

}  // namespace terrace::data
