// Puts graphs together to the tensors of a micro-batch (graphs_request.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "terrace/data/graphs/dataset/graphs_statistics.h"
#include "terrace/data/graphs/graphs_request.h"
#include "terrace/data/graphs/structures/cell.h"
#include "terrace/data/graphs/structures/structure.h"
#include "terrace/data/micro_batch.h"

namespace terrace::data {

// A graph and what the request names of it. The spans belong to the caller.
struct GraphToBatch {
  std::span<const uint8_t> species = {};
  std::span<const double> positions = {};
  Cell cell = {};
  std::span<const int32_t> receivers = {}, senders = {};    // read where the request has given_edges
  std::vector<std::span<const double>> atom_features = {};  // for each atom feature of the request
  std::vector<std::span<const double>> edge_features = {};  // for each edge feature, in the order of the given edges
  std::vector<std::span<const double>> labels = {};         // for each label; empty where the graph has none
  double charge = 0;
  int64_t branch = 0;
  size_t dataset = 0;  // of the statistics
};

// The numbers of columns of all features of the request.
struct FeatureWidths {
  int64_t atoms = 0, edges = 0;
};

// Makes a batch of graphs; `numbers` become MicroBatch::samples. Neighbours are searched only where `names` has a
// tensor of edges; sizes then are those of the tensors, and else `edges`, which are counted ones. Throws UserError
// where find_neighbours() does.
MicroBatch graph_batch(const GraphsRequest& request, const GraphsStatistics& statistics, const FeatureWidths& widths,
                       std::span<const GraphToBatch> graphs, std::vector<int64_t> numbers, int64_t edges,
                       const TensorNames& names);

// Makes the batch of structures of no dataset, for predictions; their numbers are 0, 1, 2 and so on. A structure is
// labelled with the properties of the request's labels that it has with the label's width. `dataset` is that of the
// statistics whose offsets are taken. Throws UserError, with the place in the list counted from 1, for a structure that
// lacks a feature, the charge or the edges that the request names, or has a feature with another width than the first.
MicroBatch batch_of(std::span<const Structure> structures, int64_t branch, size_t dataset, const GraphsRequest& request,
                    const GraphsStatistics& statistics, const TensorNames& names);

}  // namespace terrace::data
