// Numbers of edges of all structures of a dataset, which are counted once and kept in a file beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "terrace/data/graphs/dataset/graphs_dataset.h"
#include "terrace/data/graphs/graphs_request.h"

namespace terrace::data {

// The numbers of edges; both arrays are empty where the edges are those that the files gave.
struct EdgeCounts {
  std::span<const int64_t> edges = {};       // [structures]
  std::span<const double> log_degrees = {};  // [structures], sum over the atoms of log(degree + 1)
  std::shared_ptr<const void> memory = {};   // holds these arrays: the mapped file, or what was counted

  bool operator==(const EdgeCounts& other) const;  // compares the numbers
};

// Counts the edges by the radius and the cap of a request, or the edges that the files gave. Edges by a radius are
// taken from the file of edge_counts_path() if it fits the dataset; else all usable cores count them, with progress,
// and the file is written whole, where the folder can be written. Of several ranks that start at once on one file
// system one counts, and the others wait. Where another process found that the file fits, the file is mapped and not
// read. Throws UserError that names the structure where find_neighbours() refuses one, and where a given edge has an
// atom that is not there.
EdgeCounts edge_counts(const GraphsDataset& dataset, const GraphsRequest& request);

// Return the edges of a structure, and the sum of log(degree + 1) over its atoms. `counts` are those of the dataset.
// The logarithms are computed where the files gave the edges.
int64_t edges_of(const GraphsDataset& dataset, const EdgeCounts& counts, int64_t structure);
double log_degrees_of(const GraphsDataset& dataset, const EdgeCounts& counts, int64_t structure);

// Returns P.edges_RADIUS_CAP.bin, the file of the counts: a line of JSON filled with blanks to a multiple of 64 bytes,
// int64 [structures], float64 [structures]. The file may be removed when no run uses it.
std::filesystem::path edge_counts_path(const std::string& prefix, const GraphsRequest& request);

// Returns the files of the dataset, and that of its counts where the request has a radius: for found_in().
std::vector<std::filesystem::path> files_with_counts(const GraphsDataset& dataset, const GraphsRequest& request);

}  // namespace terrace::data
