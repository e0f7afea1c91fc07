// Copies structures of a dataset, or parses pieces of files.
#include "terrace/data/graphs/structures/structure_stream.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/terminal/log.h"
#include "terrace/data/graphs/dataset/graphs_description.h"

namespace terrace::data {

Structure structure_of(const GraphsDataset& dataset, int64_t number) {
  const GraphView view = dataset.structure(number);
  Structure structure{
      .species = {view.species.begin(), view.species.end()},
      .positions = {view.positions.begin(), view.positions.end()},
      .cell = view.cell,
      .has_edges = dataset.description().has_edges,
      .edges = {{view.receivers.begin(), view.receivers.end()}, {view.senders.begin(), view.senders.end()}}};
  const std::vector<GraphProperty>& properties = dataset.description().properties;
  for (size_t i = 0; i < properties.size(); ++i) {
    const std::span<const double> values = dataset.values(static_cast<int64_t>(i), number);
    Properties& own = properties[i].level == GraphLevel::structure ? structure.of_structure
                      : properties[i].level == GraphLevel::atom    ? structure.of_atoms
                                                                   : structure.of_edges;
    own[properties[i].name] = {.width = properties[i].width, .values = {values.begin(), values.end()}};
  }
  return structure;
}

StructureStream::StructureStream(const std::string& data, const std::string& part) {
  if (describes_graphs(graphs_description_path(data))) {
    dataset_ = std::make_unique<const GraphsDataset>(data);
    if (part == "all") {
      numbers_.resize(static_cast<size_t>(dataset_->structures()));
      std::iota(numbers_.begin(), numbers_.end(), int64_t{0});
    } else {
      const std::span<const int64_t> members = dataset_->part(part);
      numbers_.assign(members.begin(), members.end());
    }
    if (numbers_.empty()) {
      throw UserError::of("{} has no structures in its {} part; give --split all, or another part", data, part);
    }
    return;
  }
  if (!std::filesystem::exists(data)) {
    throw UserError::of(
        "--data {} is neither a file or folder of structures nor the prefix of a dataset that terrace "
        "data prepare --kind graphs has written",
        data);
  }
  files_ = find_graph_files({data}, {});
  pieces_.emplace(files_);
}

int64_t StructureStream::left() const { return is_dataset() ? std::ssize(numbers_) - static_cast<int64_t>(at_) : 0; }

std::vector<Structure> StructureStream::next(int64_t at_most) {
  std::vector<Structure> structures;
  if (is_dataset()) {
    for (; at_ < numbers_.size() && std::ssize(structures) < at_most; ++at_) {
      structures.push_back(structure_of(*dataset_, numbers_[at_]));
    }
    return structures;
  }
  while (structures.empty()) {
    const std::optional<GraphPiece> piece = pieces_->next();
    if (!piece) return structures;
    ParsedPiece parsed = parse_piece(*piece, files_);
    throw_problems(parsed.problems, "problems with the structures");
    for (const std::string& note : texts_of(parsed.notes)) log_warning("{}", note);
    for (NumberedStructure& one : parsed.structures) structures.push_back(std::move(one.structure));
  }
  return structures;
}

}  // namespace terrace::data
