// Offsets and scales of labels, and means of degrees, over the training parts of the data. Checkpoints keep them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/text/json_fwd.h"
#include "terrace/data/graphs/dataset/edge_counts.h"
#include "terrace/data/graphs/dataset/graphs_dataset.h"
#include "terrace/data/graphs/graphs_request.h"
#include "terrace/data/graphs/structures/element_fit.h"

namespace terrace::data {

// The offset that is taken off a label of one dataset.
struct OffsetOfDataset {
  std::vector<double> mean = {};    // LabelOffset::mean: [width], per atom where the label is
  ElementNumbers of_elements = {};  // LabelOffset::elements
  bool operator==(const OffsetOfDataset&) const = default;
};

struct LabelStatistics {
  std::string property = {};  // the label is the one of the request only where these four are equal
  LabelOffset offset = LabelOffset::none;
  bool per_atom = false;
  std::string scaled_as = {};
  double scale = 1;                                          // of all datasets
  std::string units = {};                                    // of the data; "" where they do not say
  std::vector<std::optional<OffsetOfDataset>> offsets = {};  // for each dataset; no value where it has no such label
  bool operator==(const LabelStatistics&) const = default;

  // Returns the offsets [rows, width] of a structure of the dataset, where rows are 1 or its atoms. 0 for datasets
  // without the label.
  std::vector<double> offsets_of(size_t dataset, GraphLevel level, int64_t width,
                                 std::span<const uint8_t> species) const;
  // Returns how far labels may be from anything that was learned where a structure of the dataset has elements that did
  // not occur in training: standard deviations [rows, width], of atoms 0 but for those of `unknown` elements. A
  // deviation is made of the scale (of `per_atom` labels for each unknown atom), and for each unknown element of the
  // number that would be taken off its atoms, of which nothing is known but how large those of the known elements are.
  std::vector<double> unlearned(size_t dataset, GraphLevel level, int64_t width, std::span<const uint8_t> species,
                                std::span<const uint8_t> unknown) const;
};

struct GraphsStatistics {
  std::vector<std::string> datasets = {};  // their names without folders
  std::array<double, 2> degree_means = {};
  std::vector<ElementNumbers::key_type> elements = {};  // that occur in training, ascending
  std::map<std::string, LabelStatistics, std::less<>> labels = {};
  bool operator==(const GraphsStatistics&) const = default;

  // Returns the number of a dataset by its name; 0 where there is only one, which then is taken for all data. No value
  // where none of several has the name.
  std::optional<size_t> find_dataset(const std::string& prefix) const;
  // Returns the elements of the structure that did not occur in training, once each.
  std::vector<uint8_t> unknown_elements(std::span<const uint8_t> species) const;
  // Returns whether the statistics have the label's offset and scale.
  bool has(const GraphLabel& label) const;
  // Returns a sentence for each label of the request whose statistics these are not.
  std::vector<std::string> problems_with(const GraphsRequest& request, const std::string& path) const;
  // Returns the statistics as JSON.
  std::string text() const;
};

// Computes the statistics of the training parts. Offsets are those of each dataset, since energies of different
// programs have different zeros; scales and degrees are those of all datasets together, in which each structure counts
// once. Properties of atoms are taken from the descriptions' means and deviations, so that only structures are read.
// The sums are made in the order of the structures, by one thread: the same bits on all ranks. `datasets` have training
// parts, and the labels' property with their width or none.
GraphsStatistics compute_graphs_statistics(const std::vector<const GraphsDataset*>& datasets,
                                           const std::vector<const EdgeCounts*>& counts, const GraphsRequest& request);

// Returns the statistics `own` of the training parts with all that `kept`, those of another training, know: the offsets
// of their elements and the scales of their labels, each where has() the label, and the means of degrees. The offset of
// a dataset that `kept` does not have is the own one, and that of an element that `kept` does not have is fitted to
// what the kept offsets leave.
GraphsStatistics with_kept_statistics(GraphsStatistics own, const GraphsStatistics& kept,
                                      const std::vector<const GraphsDataset*>& datasets, const GraphsRequest& request);

// Returns text(), of which parse_graphs_statistics() makes the same to the bit. "" where JSON has no such numbers, as
// infinite scales of labels that are too large.
std::string exact_text(const GraphsStatistics& statistics);
// Reads what exact_text() of this program gave.
GraphsStatistics parse_graphs_statistics(std::string_view text);

// Returns the part of a request on which the statistics and the numbers of edges depend.
Json json_of_request(const GraphsRequest& request);

// Reads a file of statistics. Throws UserError that names the file.
GraphsStatistics read_graphs_statistics(const std::filesystem::path& path);

}  // namespace terrace::data
