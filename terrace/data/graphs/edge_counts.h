// Numbers of edges of all structures of a dataset, which are counted once and kept in a file beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "terrace/data/graphs/graphs_dataset.h"
#include "terrace/data/graphs/graphs_request.h"

namespace terrace::data {

struct EdgeCounts {
  std::vector<int64_t> edges = {};       // [structures]
  std::vector<double> log_degrees = {};  // [structures], sum over the atoms of log(degree + 1)
  bool operator==(const EdgeCounts&) const = default;
};

// Of the radius and the cap of a request, or of the edges that the files gave. Edges by a radius are taken from the
// file below if it fits the dataset; else all usable cores count them, with progress, and the file is written whole,
// where the folder can be written. Of several ranks that start at once on one file system one counts, and the others
// wait. Throws UserError that names the structure where find_neighbours() refuses one.
EdgeCounts edge_counts(const GraphsDataset& dataset, const GraphsRequest& request);

// P.edges_RADIUS_CAP.bin: a line of JSON filled with blanks to a multiple of 64 bytes, int64 [structures],
// float64 [structures]. It may be removed at any time.
std::filesystem::path edge_counts_path(const std::string& prefix, const GraphsRequest& request);

}  // namespace terrace::data
