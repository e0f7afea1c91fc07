// Reads the sections $Nodes, $Elements and $NodeData, and passes over the others.
#include "terrace/data/graphs/formats/gmsh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/data/graphs/formats/mesh_cells.h"
#include "terrace/data/graphs/formats/text_words.h"

namespace terrace::data {
namespace {

constexpr int64_t most_tag = std::numeric_limits<int64_t>::max();
constexpr int64_t most_count = std::numeric_limits<int32_t>::max();
constexpr int64_t most_components = 1000;

struct GmshElement {
  int64_t type;
  CellShape shape;
  int64_t nodes;
};
constexpr std::array<GmshElement, 8> gmsh_elements = {{{1, CellShape::line, 2},
                                                       {2, CellShape::polygon, 3},
                                                       {3, CellShape::polygon, 4},
                                                       {4, CellShape::tetrahedron, 4},
                                                       {5, CellShape::hexahedron, 8},
                                                       {6, CellShape::prism, 6},
                                                       {7, CellShape::pyramid, 5},
                                                       {15, CellShape::points, 1}}};

class GmshReader {
 public:
  explicit GmshReader(std::string_view text) : words_(text) {}

  Structure read() {
    read_format();
    while (const std::optional<std::string_view> section = words_.next()) {
      if (*section == "$Nodes") {
        if (!mesh_.of_atoms.empty()) throw UserError::of("line {}: $Nodes stands behind $NodeData", words_.line());
        is_new_ ? read_nodes() : read_old_nodes();
        expect("$EndNodes");
      } else if (*section == "$Elements") {
        is_new_ ? read_elements() : read_old_elements();
        expect("$EndElements");
      } else if (*section == "$NodeData") {
        read_values();
        expect("$EndNodeData");
      } else {
        pass_over(*section);
      }
    }
    if (numbers_.empty()) throw UserError("has no $Nodes");
    mesh_.species.assign(numbers_.size(), 0);
    mesh_.has_edges = true;
    mesh_.edges = edges_.edges();
    return std::move(mesh_);
  }

 private:
  void expect(std::string_view mark) {
    const std::string_view found = words_.word(mark);
    if (found == mark) return;
    throw UserError::of("line {}: \"{}\" stands where {} should be", words_.line(), found.substr(0, 40), mark);
  }

  void read_format() {
    expect("$MeshFormat");
    const std::string_view version = words_.word("the version");
    is_new_ = version == "4.1";
    if (!is_new_ && version != "2.2") {
      throw UserError::of("is of version {} of Gmsh's format; 4.1 and 2.2 are read (gmsh -format msh41)",
                          version.substr(0, 40));
    }
    if (words_.whole("the type of the file", 0, 1) == 1) {
      throw UserError("is a binary file of Gmsh; ASCII is read (gmsh -setnumber Mesh.Binary 0)");
    }
    words_.whole("the size of numbers", 1, 16);
    expect("$EndMeshFormat");
  }

  void pass_over(std::string_view section) {
    if (!section.starts_with('$') || section.starts_with("$End")) {
      throw UserError::of("line {}: \"{}\" stands where a section should begin", words_.line(), section.substr(0, 40));
    }
    const std::string end = fmt::format("$End{}", section.substr(1));
    while (words_.word(end) != end) {
    }
  }

  void add_node(int64_t tag) {
    if (numbers_.emplace(tag, static_cast<int32_t>(numbers_.size())).second) return;
    throw UserError::of("line {}: the node {} is there twice", words_.line(), tag);
  }

  void read_position() {
    for (int axis = 0; axis < 3; ++axis) mesh_.positions.push_back(words_.number("a coordinate"));
  }

  int32_t node() {
    const int64_t tag = words_.whole("a node", 1, most_tag);
    const auto found = numbers_.find(tag);
    if (found == numbers_.end()) throw UserError::of("line {}: there is no node {}", words_.line(), tag);
    return found->second;
  }

  void read_nodes() {
    const int64_t blocks = words_.whole("a number of blocks", 0, most_count);
    const int64_t nodes = words_.whole("a number of nodes", 0, most_count);
    words_.whole("the least tag", 0, most_tag);
    words_.whole("the greatest tag", 0, most_tag);
    const size_t before = numbers_.size();
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t dimension = words_.whole("a dimension", 0, 3);
      words_.whole("the tag of an entity", -most_tag, most_tag);
      const bool parametric = words_.whole("0 or 1", 0, 1) == 1;
      const int64_t count = words_.whole("a number of nodes", 0, most_count);
      for (int64_t i = 0; i < count; ++i) add_node(words_.whole("the tag of a node", 1, most_tag));
      for (int64_t i = 0; i < count; ++i) {
        read_position();
        for (int64_t k = 0; parametric && k < dimension; ++k) words_.number("a parametric coordinate");
      }
    }
    check_count("$Nodes", nodes, numbers_.size() - before);
  }

  void read_old_nodes() {
    const int64_t nodes = words_.whole("a number of nodes", 0, most_count);
    for (int64_t i = 0; i < nodes; ++i) {
      add_node(words_.whole("the tag of a node", 1, most_tag));
      read_position();
    }
  }

  void check_count(const char* section, int64_t said, size_t has) const {
    if (said == static_cast<int64_t>(has)) return;
    throw UserError::of("line {}: {} has {} where its first line says {}", words_.line(), section, has, said);
  }

  static const GmshElement& element(int64_t type, int64_t line) {
    const auto found = std::ranges::find(gmsh_elements, type, &GmshElement::type);
    if (found != gmsh_elements.end()) return *found;
    throw UserError::of(
        "line {}: an element of type {}, which has more nodes than corners or is unknown; save the mesh with "
        "Mesh.ElementOrder = 1",
        line, type);
  }

  void read_element(const GmshElement& element) {
    std::vector<int32_t> nodes;
    for (int64_t i = 0; i < element.nodes; ++i) nodes.push_back(node());
    edges_.add(element.shape, nodes);
  }

  void read_elements() {
    const int64_t blocks = words_.whole("a number of blocks", 0, most_count);
    const int64_t elements = words_.whole("a number of elements", 0, most_count);
    words_.whole("the least tag", 0, most_tag);
    words_.whole("the greatest tag", 0, most_tag);
    int64_t has = 0;
    for (int64_t block = 0; block < blocks; ++block) {
      words_.whole("a dimension", 0, 3);
      words_.whole("the tag of an entity", -most_tag, most_tag);
      const int64_t type = words_.whole("a type of elements", 0, most_tag);
      const GmshElement& of_block = element(type, words_.line());
      const int64_t count = words_.whole("a number of elements", 0, most_count);
      for (int64_t i = 0; i < count; ++i) {
        words_.whole("the tag of an element", 1, most_tag);
        read_element(of_block);
      }
      has += count;
    }
    check_count("$Elements", elements, static_cast<size_t>(has));
  }

  void read_old_elements() {
    const int64_t elements = words_.whole("a number of elements", 0, most_count);
    for (int64_t i = 0; i < elements; ++i) {
      words_.whole("the tag of an element", 1, most_tag);
      const int64_t type = words_.whole("a type of elements", 0, most_tag);
      const GmshElement& of_line = element(type, words_.line());
      const int64_t tags = words_.whole("a number of tags", 0, most_count);
      for (int64_t tag = 0; tag < tags; ++tag) words_.whole("a tag", -most_tag, most_tag);
      read_element(of_line);
    }
  }

  // Reads a name between quotes, on a line of its own.
  std::string quoted_name() {
    const std::string_view first = words_.word("a name in quotes");
    std::string name = fmt::format("{}{}", first, words_.rest_of_line());
    while (!name.empty() && (name.back() == '\r' || name.back() == ' ')) name.pop_back();
    if (name.size() < 3 || name.front() != '"' || name.back() != '"') {
      throw UserError::of("line {}: $NodeData has no name in quotes", words_.line());
    }
    return name.substr(1, name.size() - 2);
  }

  void read_values() {
    const int64_t texts = words_.whole("a number of texts", 1, most_components);
    const std::string name = quoted_name();
    for (int64_t i = 1; i < texts; ++i) quoted_name();
    const int64_t reals = words_.whole("a number of reals", 0, most_components);
    for (int64_t i = 0; i < reals; ++i) words_.number("a real");
    const int64_t wholes = words_.whole("a number of whole numbers", 3, most_components);
    words_.whole("a time step", -most_tag, most_tag);
    const int64_t width = words_.whole("a number of components", 1, most_components);
    const int64_t rows = words_.whole("a number of nodes", 0, most_count);
    for (int64_t i = 3; i < wholes; ++i) words_.whole("a whole number", -most_tag, most_tag);
    if (mesh_.of_atoms.contains(name)) {
      throw UserError::of("line {}: the values {} are there twice, as of two time steps; keep one of them",
                          words_.line(), name);
    }
    if (static_cast<size_t>(rows) != numbers_.size()) {
      throw UserError::of("line {}: the values {} are those of {} nodes, and there are {}", words_.line(), name, rows,
                          numbers_.size());
    }
    PropertyValues& values = mesh_.of_atoms[name];
    values.width = width;
    values.values.assign(numbers_.size() * static_cast<size_t>(width), 0);
    std::vector<bool> is_there(numbers_.size());
    for (int64_t row = 0; row < rows; ++row) {
      const auto at = static_cast<size_t>(node());
      if (is_there[at]) throw UserError::of("line {}: {} has two values at one node", words_.line(), name);
      is_there[at] = true;
      for (size_t k = 0; k < static_cast<size_t>(width); ++k) {
        values.values[at * static_cast<size_t>(width) + k] = words_.number("a value");
      }
    }
  }

  TextWords words_;
  bool is_new_ = false;
  Structure mesh_;
  std::unordered_map<int64_t, int32_t> numbers_;  // of nodes by their tags
  CellEdges edges_;
};

}  // namespace

Structure parse_gmsh(std::string_view text) { return GmshReader(text).read(); }

}  // namespace terrace::data
