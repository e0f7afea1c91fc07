// Reads points, cells and the attributes of points, and passes over those of cells.
#include "terrace/data/graphs/formats/vtk.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/data/graphs/formats/mesh_cells.h"
#include "terrace/data/graphs/formats/text_numbers.h"
#include "terrace/data/graphs/formats/text_words.h"

namespace terrace::data {
namespace {

constexpr int64_t most_rows = std::numeric_limits<int32_t>::max();
constexpr int64_t most_columns = 1000;

struct VtkCell {
  int64_t type;
  CellShape shape;
  int64_t nodes;  // 0: any number
};
constexpr std::array<VtkCell, 14> vtk_cells = {{{1, CellShape::points, 1},
                                                {2, CellShape::points, 0},
                                                {3, CellShape::line, 2},
                                                {4, CellShape::line, 0},
                                                {5, CellShape::polygon, 3},
                                                {6, CellShape::strip, 0},
                                                {7, CellShape::polygon, 0},
                                                {8, CellShape::pixel, 4},
                                                {9, CellShape::polygon, 4},
                                                {10, CellShape::tetrahedron, 4},
                                                {11, CellShape::voxel, 8},
                                                {12, CellShape::hexahedron, 8},
                                                {13, CellShape::prism, 6},
                                                {14, CellShape::pyramid, 5}}};

std::string upper_case(std::string_view word) {
  std::string upper(word);
  std::ranges::transform(upper, upper.begin(), [](char letter) {
    return static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  });
  return upper;
}

class VtkReader {
 public:
  explicit VtkReader(std::string_view text) : words_(text) {}

  Structure read() {
    read_head();
    while (const std::optional<std::string_view> word = words_.next()) read_section(upper_case(*word));
    if (!has_points_) throw UserError("has no POINTS");
    add_cells();
    mesh_.species.assign(mesh_.positions.size() / 3, 0);
    mesh_.has_edges = true;
    mesh_.edges = edges_.edges();
    return std::move(mesh_);
  }

 private:
  enum class Rows { none, points, cells };

  void read_head() {
    if (words_.word("# vtk DataFile Version") != "#" || !words_.rest_of_line().starts_with(" vtk DataFile")) {
      throw UserError("is no legacy file of VTK, whose first line is \"# vtk DataFile Version 3.0\"");
    }
    words_.next_line();  // the title
    const std::string form = upper_case(words_.word("ASCII"));
    if (form != "ASCII") {
      throw UserError::of("line {}: is {} and not ASCII; write it with the file type ASCII", words_.line(),
                          form.substr(0, 40));
    }
    expect_word("DATASET");
    const std::string kind = upper_case(words_.word("UNSTRUCTURED_GRID"));
    if (kind != "UNSTRUCTURED_GRID") {
      throw UserError::of("line {}: has a dataset of the kind {}; an UNSTRUCTURED_GRID is read", words_.line(),
                          kind.substr(0, 40));
    }
  }

  void expect_word(const char* expected) {
    const std::string found = upper_case(words_.word(expected));
    if (found == expected) return;
    throw UserError::of("line {}: \"{}\" stands where {} should be", words_.line(), found.substr(0, 40), expected);
  }

  void read_section(const std::string& section) {
    if (section == "POINTS") {
      const int64_t points = words_.whole("a number of points", 0, most_rows);
      words_.word("a type");
      if (has_points_ || rows_ != Rows::none) {
        throw UserError::of("line {}: POINTS are there twice, or behind the data of points or cells", words_.line());
      }
      has_points_ = true;
      mesh_.positions = numbers(3 * points);
    } else if (section == "CELLS") {
      read_cells();
    } else if (section == "CELL_TYPES") {
      const int64_t cells = words_.whole("a number of cells", 0, most_rows);
      for (int64_t i = 0; i < cells; ++i) types_.push_back(words_.whole("a type of cells", 0, most_rows));
    } else if (section == "POINT_DATA" || section == "CELL_DATA") {
      rows_ = section == "POINT_DATA" ? Rows::points : Rows::cells;
      num_rows_ = words_.whole("a number of rows", 0, most_rows);
      const int64_t points = std::ssize(mesh_.positions) / 3;
      if (rows_ == Rows::points && num_rows_ != points) {
        throw UserError::of("line {}: POINT_DATA has {} rows for {} points", words_.line(), num_rows_, points);
      }
    } else if (section == "METADATA") {
      while (!words_.next_line().empty()) {
      }
    } else {
      read_attribute(section);
    }
  }

  std::vector<double> numbers(int64_t count) {
    std::vector<double> list;
    for (int64_t i = 0; i < count; ++i) list.push_back(words_.number("a number"));
    return list;
  }

  // Reads the cells: before version 5 a list of counts each with its nodes, then OFFSETS and CONNECTIVITY.
  void read_cells() {
    const int64_t first = words_.whole("a number of cells", 0, most_rows);
    const int64_t second = words_.whole("a number of numbers", 0, most_rows);
    if (!offsets_.empty()) throw UserError::of("line {}: CELLS are there twice", words_.line());
    const std::optional<std::string_view> word = words_.peek();
    if (word && upper_case(*word) == "OFFSETS") {
      words_.next();
      words_.word("a type");
      for (int64_t i = 0; i < first; ++i) offsets_.push_back(words_.whole("an offset", 0, second));
      expect_word("CONNECTIVITY");
      words_.word("a type");
      for (int64_t i = 0; i < second; ++i) add_node_of_cell();
      if (offsets_.empty()) offsets_ = {0};
      if (offsets_.front() != 0 || offsets_.back() != second || !std::ranges::is_sorted(offsets_)) {
        throw UserError::of("line {}: the OFFSETS of the cells do not ascend from 0 to {}", words_.line(), second);
      }
      return;
    }
    offsets_ = {0};
    for (int64_t cell = 0; cell < first; ++cell) {
      const int64_t count = words_.whole("a number of nodes", 0, second);
      for (int64_t i = 0; i < count; ++i) add_node_of_cell();
      offsets_.push_back(std::ssize(nodes_));
    }
  }

  void add_node_of_cell() {
    nodes_.push_back(static_cast<int32_t>(words_.whole("the number of a point", 0, most_rows - 1)));
  }

  void add_cells() {
    const auto points = mesh_.positions.size() / 3;
    const auto outside =
        std::ranges::find_if(nodes_, [&](int32_t node) { return static_cast<size_t>(node) >= points; });
    if (outside != nodes_.end()) {
      throw UserError::of("a cell has the point {} of {}, counted from 0", *outside, points);
    }
    const size_t cells = offsets_.empty() ? 0 : offsets_.size() - 1;
    if (types_.size() != cells) throw UserError::of("CELL_TYPES has {} types for {} cells", types_.size(), cells);
    for (size_t cell = 0; cell < cells; ++cell) {
      const auto found = std::ranges::find(vtk_cells, types_[cell], &VtkCell::type);
      const auto begin = static_cast<size_t>(offsets_[cell]), end = static_cast<size_t>(offsets_[cell + 1]);
      const auto count = static_cast<int64_t>(end - begin);
      if (found == vtk_cells.end() || (found->nodes > 0 && found->nodes != count)) {
        throw UserError::of(
            "cell {} has the type {} with {} points; cells of corners alone are read, of the types 1 to 14 with their "
            "numbers of points",
            cell + 1, types_[cell], count);
      }
      edges_.add(found->shape, std::span(nodes_).subspan(begin, end - begin));
    }
  }

  void add_property(std::string_view name, int64_t width, int64_t rows) {
    const std::string key(name);
    std::vector<double> values = numbers(width * rows);
    if (rows_ != Rows::points) return;
    if (rows != num_rows_) {
      throw UserError::of("line {}: {} has {} rows for {} points", words_.line(), key, rows, num_rows_);
    }
    if (!mesh_.of_atoms.emplace(key, PropertyValues{.width = width, .values = std::move(values)}).second) {
      throw UserError::of("line {}: the data {} are there twice", words_.line(), key);
    }
  }

  void read_attribute(const std::string& kind) {
    if (kind == "FIELD") return read_field();
    if (rows_ == Rows::none) {
      throw UserError::of("line {}: \"{}\" stands where a section should begin", words_.line(), kind.substr(0, 40));
    }
    const std::string_view name = words_.word("a name");
    if (kind == "SCALARS") {
      words_.word("a type");
      int64_t width = 1;
      const std::optional<std::string_view> next = words_.peek();
      if (next && whole_number_of(*next)) width = words_.whole("a number of components", 1, 4);
      if (const auto table = words_.peek(); table && upper_case(*table) == "LOOKUP_TABLE") {
        words_.next();
        words_.word("a name");
      }
      add_property(name, width, num_rows_);
    } else if (kind == "VECTORS" || kind == "NORMALS" || kind == "TENSORS") {
      words_.word("a type");
      add_property(name, kind == "TENSORS" ? 9 : 3, num_rows_);
    } else if (kind == "TEXTURE_COORDINATES") {
      const int64_t width = words_.whole("a number of components", 1, 3);
      words_.word("a type");
      add_property(name, width, num_rows_);
    } else if (kind == "COLOR_SCALARS") {
      add_property(name, words_.whole("a number of components", 1, most_columns), num_rows_);
    } else if (kind == "LOOKUP_TABLE") {
      numbers(4 * words_.whole("a number of colours", 0, most_rows));
    } else {
      throw UserError::of("line {}: data of the kind {} are not known", words_.line(), kind.substr(0, 40));
    }
  }

  // Reads a field. In front of the data of points or cells a field describes the file, and is left out.
  void read_field() {
    words_.word("a name");
    const int64_t arrays = words_.whole("a number of arrays", 0, most_rows);
    for (int64_t array = 0; array < arrays; ++array) {
      std::string_view name = words_.word("the name of an array");
      if (name == "METADATA") {
        while (!words_.next_line().empty()) {
        }
        name = words_.word("the name of an array");
      }
      const int64_t width = words_.whole("a number of components", 1, most_columns);
      const int64_t rows = words_.whole("a number of rows", 0, most_rows);
      const std::string type = upper_case(words_.word("a type"));
      if (type == "STRING") throw UserError::of("line {}: {} has texts; numbers are read", words_.line(), name);
      add_property(name, width, rows);
    }
  }

  TextWords words_;
  bool has_points_ = false;
  Structure mesh_;
  std::vector<int64_t> offsets_, types_;
  std::vector<int32_t> nodes_;  // of the cells
  Rows rows_ = Rows::none;
  int64_t num_rows_ = 0;
  CellEdges edges_;
};

}  // namespace

Structure parse_vtk(std::string_view text) { return VtkReader(text).read(); }

}  // namespace terrace::data
