// Reads structures one after another, of a part of a prepared dataset or of files, in their order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "terrace/data/graphs/dataset/graph_files.h"
#include "terrace/data/graphs/dataset/graphs_dataset.h"
#include "terrace/data/graphs/structures/structure.h"

namespace terrace::data {

class StructureStream {
 public:
  // `data` is the prefix of a prepared dataset, of which `part` is read ("train", "validation", "test" or "all"), or a
  // file or folder of structures. Throws UserError for what is neither and for a part without structures.
  StructureStream(const std::string& data, const std::string& part);

  // Returns the next structures, at most so many where they are those of a dataset; none behind the last. Throws
  // UserError with every problem of a piece of a file.
  std::vector<Structure> next(int64_t at_most);
  // Returns how many structures are left in the dataset; 0 for files, where that is not known.
  int64_t left() const;

 private:
  bool is_dataset() const { return dataset_ != nullptr; }

  std::unique_ptr<const GraphsDataset> dataset_;
  std::vector<int64_t> numbers_;
  size_t at_ = 0;
  std::vector<std::filesystem::path> files_;
  std::optional<GraphPieces> pieces_;
};

// Returns a structure of a dataset with all its properties.
Structure structure_of(const GraphsDataset& dataset, int64_t number);

}  // namespace terrace::data
