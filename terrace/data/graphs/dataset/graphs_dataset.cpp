// Maps the arrays of P.bin.
#include "terrace/data/graphs/dataset/graphs_dataset.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <type_traits>

#include "terrace/base/error.h"
#include "terrace/base/files/texts_read.h"
#include "terrace/base/terminal/progress.h"

namespace terrace::data {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are stored as the processor has them");

template <typename Number>
constexpr NumberType type_of() {
  if (std::is_same_v<Number, uint8_t>) return NumberType::uint8;
  if (std::is_same_v<Number, int32_t>) return NumberType::int32;
  return std::is_same_v<Number, int64_t> ? NumberType::int64 : NumberType::float64;
}

template <typename Number>
std::span<const Number> rows_of(std::span<const Number> all, int64_t first, int64_t end, int64_t width) {
  return all.subspan(static_cast<size_t>(first * width), static_cast<size_t>((end - first) * width));
}

}  // namespace

GraphsDataset::GraphsDataset(const std::string& prefix)
    : prefix_(prefix),
      description_(read_graphs_description(graphs_description_path(prefix))),
      file_(graphs_path(prefix)) {
  const GraphsDescription& all = description_;
  if (all.structures < 1 || all.atoms < 0 || all.edges < 0) {
    throw UserError::of("{}.json describes no graphs; prepare the dataset again", prefix);
  }
  const auto structures = static_cast<uint64_t>(all.structures), atoms = static_cast<uint64_t>(all.atoms);
  const auto edges = static_cast<uint64_t>(all.edges);
  first_atom_ = numbers<int64_t>("first_atom", structures + 1, 1);
  species_ = numbers<uint8_t>("species", atoms, 1);
  positions_ = numbers<double>("positions", atoms, 3);
  cells_ = numbers<double>("cells", structures, 9);
  periodic_ = numbers<uint8_t>("periodic", structures, 3);
  source_ = numbers<int32_t>("source", structures, 1);
  number_ = numbers<int64_t>("number", structures, 1);
  if (all.has_edges) {
    first_edge_ = numbers<int64_t>("first_edge", structures + 1, 1);
    receivers_ = numbers<int32_t>("receivers", edges, 1);
    senders_ = numbers<int32_t>("senders", edges, 1);
  }
  found_in(files(), "whether offsets ascend, and parts have structures that are there", [&] {
    check_places();
    return "yes";
  });
  for (const GraphProperty& property : all.properties) {
    const uint64_t rows = property.level == GraphLevel::structure ? structures
                          : property.level == GraphLevel::atom    ? atoms
                                                                  : edges;
    if (property.width < 1 || property.array.type != NumberType::float64 ||
        property.array.numbers() != rows * static_cast<uint64_t>(property.width)) {
      throw UserError::of("{}.json describes another array of {} than it has; prepare the dataset again", prefix,
                          property.name);
    }
    const std::span<const std::byte> bytes = bytes_of_array(property.name, property.array);
    properties_.emplace_back(reinterpret_cast<const double*>(bytes.data()), bytes.size() / sizeof(double));
  }
  file_.expect_random_reads();
}

std::span<const std::byte> GraphsDataset::bytes_of_array(const std::string& name, const GraphArray& array) const {
  const uint64_t has = file_.bytes().size();
  if (array.offset % 64 != 0 || array.offset > has || array.bytes() > has - array.offset) {
    throw UserError::of("{} has {} bytes and ends within {}; it was cut off, so prepare the dataset again",
                        file_.path().string(), has, name);
  }
  return file_.bytes().subspan(array.offset, array.bytes());
}

template <typename Number>
std::span<const Number> GraphsDataset::numbers(const std::string& name, uint64_t rows, uint64_t width) const {
  const auto found = description_.arrays.find(name);
  if (found == description_.arrays.end() || found->second.type != type_of<Number>() ||
      found->second.numbers() != rows * width) {
    throw UserError::of("{}.json describes another array {} than it needs; prepare the dataset again", prefix_, name);
  }
  const std::span<const std::byte> bytes = bytes_of_array(name, found->second);
  return {reinterpret_cast<const Number*>(bytes.data()), bytes.size() / sizeof(Number)};
}

void GraphsDataset::check_offsets(std::span<const int64_t> offsets, int64_t end) const {
  if (offsets.front() != 0 || offsets.back() != end || !std::ranges::is_sorted(offsets)) {
    throw UserError::of("{} has offsets that do not ascend; it is damaged, so copy it again", file_.path().string());
  }
}

void GraphsDataset::check_places() const {
  check_offsets(first_atom_, description_.atoms);
  if (description_.has_edges) check_offsets(first_edge_, description_.edges);
  for (const char* name : graph_splits) {
    const bool is_inside =
        std::ranges::all_of(part(name), [&](int64_t structure) { return structure >= 0 && structure < structures(); });
    if (!is_inside) throw UserError::of("{}.bin has a part of structures that are not there; copy it again", prefix_);
  }
}

std::vector<std::filesystem::path> GraphsDataset::files() const {
  return {file_.path(), graphs_description_path(prefix_)};
}

int64_t GraphsDataset::atoms_of(int64_t structure) const {
  const auto k = static_cast<size_t>(structure);
  return first_atom_[k + 1] - first_atom_[k];
}

int64_t GraphsDataset::given_edges_of(int64_t structure) const {
  if (first_edge_.empty()) return 0;
  const auto k = static_cast<size_t>(structure);
  return first_edge_[k + 1] - first_edge_[k];
}

// Offsets are always mapped: the first structures whose offsets lie in a page fetch it.
GraphView GraphsDataset::structure(int64_t structure, NumbersAtHand* at_hand) const {
  const auto k = static_cast<size_t>(structure);
  const auto rows = [&](auto all, int64_t first, int64_t end, int64_t width) {
    const auto mapped = rows_of(all, first, end, width);
    return at_hand == nullptr ? mapped : (*at_hand)(file_, mapped);
  };
  GraphView view{.species = rows(species_, first_atom_[k], first_atom_[k + 1], 1),
                 .positions = rows(positions_, first_atom_[k], first_atom_[k + 1], 3),
                 .source = rows(source_, structure, structure + 1, 1)[0],
                 .number = rows(number_, structure, structure + 1, 1)[0]};
  const std::span<const double> cell = rows(cells_, structure, structure + 1, 9);
  const std::span<const uint8_t> periodic = rows(periodic_, structure, structure + 1, 3);
  for (size_t row = 0; row < 3; ++row) {
    for (size_t axis = 0; axis < 3; ++axis) view.cell.vectors[row][axis] = cell[3 * row + axis];
    view.cell.periodic[row] = periodic[row] != 0;
  }
  if (!first_edge_.empty()) {
    view.receivers = rows(receivers_, first_edge_[k], first_edge_[k + 1], 1);
    view.senders = rows(senders_, first_edge_[k], first_edge_[k + 1], 1);
  }
  return view;
}

void GraphsDataset::add_ranges(int64_t structure, std::span<const int64_t> properties, FileRanges& ranges) const {
  const auto k = static_cast<size_t>(structure);
  add_range(file_, rows_of(species_, first_atom_[k], first_atom_[k + 1], 1), ranges);
  add_range(file_, rows_of(positions_, first_atom_[k], first_atom_[k + 1], 3), ranges);
  add_range(file_, rows_of(source_, structure, structure + 1, 1), ranges);
  add_range(file_, rows_of(number_, structure, structure + 1, 1), ranges);
  add_range(file_, rows_of(cells_, structure, structure + 1, 9), ranges);
  add_range(file_, rows_of(periodic_, structure, structure + 1, 3), ranges);
  if (!first_edge_.empty()) {
    add_range(file_, rows_of(receivers_, first_edge_[k], first_edge_[k + 1], 1), ranges);
    add_range(file_, rows_of(senders_, first_edge_[k], first_edge_[k + 1], 1), ranges);
  }
  for (const int64_t property : properties) {
    if (property >= 0) add_range(file_, values(property, structure), ranges);
  }
}

std::span<const double> GraphsDataset::values(int64_t property, int64_t structure) const {
  const GraphProperty& described = description_.properties[static_cast<size_t>(property)];
  const std::span<const double> all = properties_[static_cast<size_t>(property)];
  const auto k = static_cast<size_t>(structure);
  if (described.level == GraphLevel::structure) return rows_of(all, structure, structure + 1, described.width);
  const std::span<const int64_t> first = described.level == GraphLevel::atom ? first_atom_ : first_edge_;
  return rows_of(all, first[k], first[k + 1], described.width);
}

std::span<const int64_t> GraphsDataset::part(std::string_view name) const {
  const auto found = description_.arrays.find(std::string(name));
  const uint64_t size = found == description_.arrays.end() ? 0 : found->second.numbers();
  return numbers<int64_t>(std::string(name), size, 1);
}

void GraphsDataset::expect(int64_t structure) const {
  const GraphView view = this->structure(structure);
  const auto announce = [&](auto span) {
    const auto offset = reinterpret_cast<const std::byte*>(span.data()) - file_.bytes().data();
    file_.expect(static_cast<size_t>(offset), span.size_bytes());
  };
  announce(view.positions);
  if (!view.receivers.empty()) {
    announce(view.receivers);
    announce(view.senders);
  }
  for (size_t property = 0; property < properties_.size(); ++property) {
    if (description_.properties[property].level == GraphLevel::structure) continue;
    announce(values(static_cast<int64_t>(property), structure));
  }
}

void GraphsDataset::check() const {
  Progress progress("computing checksums", file_.bytes().size());
  uint64_t done = 0;
  const auto check_array = [&](const std::string& name, const GraphArray& array) {
    if (checksum(bytes_of_array(name, array)) != array.checksum) {
      throw UserError::of("{}: the array {} has another checksum than {}.json says; it is damaged, so copy it again",
                          file_.path().string(), name, prefix_);
    }
    done += array.bytes();
    progress.update(done, name);
  };
  for (const auto& [name, array] : description_.arrays) check_array(name, array);
  for (const GraphProperty& property : description_.properties) check_array(property.name, property.array);
}

}  // namespace terrace::data
