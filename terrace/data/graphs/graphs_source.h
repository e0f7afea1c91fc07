// The samples of a model of graphs: structures of prepared datasets, in the tensors of graphs_request.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/text/sizes.h"
#include "terrace/data/graphs/dataset/edge_counts.h"
#include "terrace/data/graphs/dataset/graphs_dataset.h"
#include "terrace/data/graphs/dataset/graphs_statistics.h"
#include "terrace/data/graphs/graph_batch.h"
#include "terrace/data/graphs/graphs_config.h"
#include "terrace/data/graphs/graphs_request.h"
#include "terrace/data/graphs/structures/stress_version.h"
#include "terrace/data/graphs/structures/structure.h"
#include "terrace/data/order/mixture.h"
#include "terrace/data/source.h"

namespace terrace::data {

// Training samples are the structures of the training parts in the order of a Mixture: each once an epoch, or with
// weights in proportion to them. A step's samples are divided among the ranks by their predicted cost
// (divided_samples.h), under the budget of train.micro_batch_sizes, which may limit "atoms" and "edges". Held-out
// samples are those of config.held_out_split, or of the datasets of config.held_out; an evaluation of fewer samples
// takes them evenly. All of a structure's edges are found when its batch is made. Whole arrays are read when a source
// is opened, unless another process told what it found in them (found_in()).
class GraphsSource : public Source {
 public:
  // Throws UserError with every problem. `budget` is the one of the shares that will be asked for.
  GraphsSource(const GraphsConfig& config, const GraphsRequest& request, uint64_t seed, const Sizes& budget = {});

  uint64_t samples_in_epoch() const override { return order_ ? order_->samples() : 0; }
  std::vector<AttachedFile> attached_files() const override;
  Json identity() const override;
  void check_labels_of(const Json& older, const Json& own) const override;
  void follow_order_of(const Json& older, Json& own) override;
  std::vector<const MappedFile*> staged_files() const override;
  std::string difference(const Json& older, const Json& own, int64_t steps_done) const override;

  // A structure of a dataset, both by number.
  struct Place {
    size_t dataset = 0;
    int64_t structure = 0;
    bool operator==(const Place&) const = default;
  };
  // Return the structure of a sample of the run, and of one of the held-out samples of a dataset.
  Place training_place(uint64_t sample) const;
  Place held_out_place(const std::string& dataset, uint64_t number) const;
  uint64_t held_out_samples() const;

  // Makes the tensors of structures; `numbers` become MicroBatch::samples.
  MicroBatch batch(std::span<const Place> places, std::vector<int64_t> numbers, const TensorNames& names) const;

  const GraphsStatistics& statistics() const { return statistics_; }
  const GraphsRequest& request() const { return request_; }
  const GraphsDataset& dataset(size_t number) const { return *datasets_.at(number).file; }
  size_t datasets() const { return datasets_.size(); }
  int64_t edges_of(const Place& place) const;

 protected:
  std::vector<HeldOutPart> held_out_parts() const override;
  MicroBatch micro_batch(const Samples& samples, const TensorNames& names) const override;
  int64_t items_of(uint64_t sample) const override;  // atoms
  // Adds the dataset, the structure's number in it, the file and place that it came from, formula, atoms, edges and
  // labels of the structure.
  void describe(uint64_t sample, Json& record) const override;
  SizesOfSamples sizes_of(const Samples& samples) const override { return sizes_of_places(places_of(samples)); }
  std::optional<SampleCost> cost() const override;
  FileRanges ranges_of(const Samples& samples, const TensorNames& names) const override;

 private:
  struct Dataset {
    std::unique_ptr<const GraphsDataset> file;
    EdgeCounts counts = {};
    std::span<const int64_t> held_out = {};  // structures, in the file
    int64_t branch = 0;
    size_t of_statistics = 0;
    std::vector<int64_t> labels = {}, atom_features = {}, edge_features = {};  // numbers of properties; -1: it has none
    int64_t charge = -1;
  };
  size_t find_dataset(const std::string& name) const;
  std::vector<Place> places_of(const Samples& samples) const;
  GraphToBatch graph_at(const Place& place, NumbersAtHand& at_hand) const;
  SizesOfSamples sizes_of_places(std::span<const Place> places) const;
  void open_dataset(const std::string& prefix, int64_t branch);
  void check_sizes(const Sizes& budget) const;
  void mix();
  GraphsStatistics statistics_of_datasets() const;
  std::vector<RedefinedStress> redefined_stresses() const;
  void keep_statistics(const GraphsStatistics& kept);

  GraphsConfig config_;
  GraphsRequest request_;
  std::vector<Dataset> datasets_;
  GraphsStatistics statistics_;
  FeatureWidths widths_;
  uint64_t seed_ = 0;
  OrderVersion order_version_ = OrderVersion::complete_epochs;
  std::optional<Mixture> order_;  // of the training structures
};

// Returns the structures of a dataset on which a model is evaluated.
std::span<const int64_t> held_out_part(const GraphsConfig& config, const GraphsDataset& dataset);

// Returns sentences about what does not fit between the configuration, the model and the files of a run that trains,
// without reading values. A run that `evaluates` needs held-out structures too.
std::vector<std::string> problems_with_graphs(const GraphsConfig& config, const GraphsRequest& request,
                                              bool evaluates = false);

// Returns the names and checksums of what the files of the configuration hold, which must be equal on all ranks.
std::vector<std::pair<std::string, std::string>> facts_of_graphs(const GraphsConfig& config);

// Atoms and edges of the training structures, or of the held-out ones where there are no training structures, for
// planning.
struct GraphSizes {
  double average_atoms = 0, average_edges = 0;
  int64_t most_atoms = 0, most_edges = 0;
};
// Returns the sizes that the configuration gives, and for those that it leaves out the sizes of the datasets, whose
// edges are counted where that was not done before. Throws UserError where a dataset is not there and the configuration
// does not give all.
GraphSizes sizes_of_graphs(const GraphsConfig& config, const GraphsRequest& request);

}  // namespace terrace::data
