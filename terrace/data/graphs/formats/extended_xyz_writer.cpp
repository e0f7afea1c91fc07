// Formats frames of extended XYZ.
#include "terrace/data/graphs/formats/extended_xyz_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <span>

#include "terrace/data/graphs/structures/elements.h"

namespace terrace::data {
namespace {

// Puts a name that is no plain word in quotes.
std::string quoted(const std::string& name) {
  const bool is_plain = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
  if (is_plain) return name;
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

bool has_cell(const Cell& cell) {
  return cell.is_periodic() || std::ranges::any_of(cell.vectors, [](const Vector3& v) { return length(v) > 0; });
}

// A property of which nothing is known is left out.
bool is_missing(const PropertyValues& property) {
  return std::ranges::all_of(property.values, [](double value) { return std::isnan(value); });
}

}  // namespace

std::string extended_xyz(const Structure& structure) {
  const auto& v = structure.cell.vectors;
  const auto& periodic = structure.cell.periodic;
  std::string text = fmt::format("{}\n", structure.atoms());
  auto out = std::back_inserter(text);
  if (has_cell(structure.cell)) {
    fmt::format_to(out, "Lattice=\"{} {} {} {} {} {} {} {} {}\" ", v[0][0], v[0][1], v[0][2], v[1][0], v[1][1], v[1][2],
                   v[2][0], v[2][1], v[2][2]);
  }
  text += "Properties=species:S:1:pos:R:3";
  for (const auto& [name, property] : structure.of_atoms) {
    if (!is_missing(property)) fmt::format_to(out, ":{}:R:{}", name, property.width);
  }
  for (const auto& [name, property] : structure.of_structure) {
    if (is_missing(property)) continue;
    if (property.width == 1) {
      fmt::format_to(out, " {}={}", quoted(name), property.values[0]);
    } else {
      fmt::format_to(out, " {}=\"{}\"", quoted(name), fmt::join(property.values, " "));
    }
  }
  fmt::format_to(out, " pbc=\"{} {} {}\"\n", periodic[0] ? 'T' : 'F', periodic[1] ? 'T' : 'F', periodic[2] ? 'T' : 'F');
  for (size_t atom = 0; atom < structure.species.size(); ++atom) {
    const std::span<const double> position(structure.positions.data() + 3 * atom, 3);
    fmt::format_to(out, "{} {}", element_symbol(structure.species[atom]), fmt::join(position, " "));
    for (const auto& [name, property] : structure.of_atoms) {
      if (is_missing(property)) continue;
      const auto width = static_cast<size_t>(property.width);
      fmt::format_to(out, " {}", fmt::join(std::span(property.values).subspan(atom * width, width), " "));
    }
    text += '\n';
  }
  return text;
}

}  // namespace terrace::data
