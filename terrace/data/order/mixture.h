// Maps a sample of the run to a dataset and one of its samples: a pure function in nearly constant memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "terrace/base/random.h"
#include "terrace/data/order/dataset_order.h"

namespace terrace::data {

class BlockRanks;

// The version of the order of samples in a weighted mixture. A run keeps the version that it began with, which its
// checkpoints name; checkpoints that name none have the first version.
enum class OrderVersion {
  overlapping_epochs = 1,  // where an epoch of a dataset ends inside a block, samples of the next one may come earlier
  complete_epochs = 2,     // no sample occurs again before all others of its dataset have occurred as often
};

// Without weights, all samples of all datasets form one epoch in a shuffled order, so each occurs once per epoch. With
// weights, the run is a sequence of blocks of equal length. Each block has the same number of samples from a dataset,
// in its own shuffled order. Each dataset has its own epochs, in which each of its samples occurs once. Where an epoch
// ends inside a block, the samples of the dataset in this block come in the order of its epochs, so that each epoch is
// complete before the next one begins; elsewhere in the order of the block.
//
// A run whose datasets or weights change at a step has several mixtures. Each dataset then continues where the mixture
// before left it: no sample occurs again before all others of its dataset have occurred as often. Without weights the
// first epoch of a later mixture consists of what is left of the datasets' epochs.
//
// A mixture can also follow one order of all samples of all datasets, numbered one dataset after another.
class Mixture {
 public:
  struct DatasetSample {
    size_t dataset;
    uint64_t sample;  // within the dataset
  };

  // `sizes` are numbers of samples, all > 0; `weights` has as many entries or none. With `reshuffle` each epoch has
  // another order.
  Mixture(std::vector<uint64_t> sizes, const std::vector<double>& weights, PhiloxKey key, bool reshuffle,
          OrderVersion version = OrderVersion::complete_epochs);
  // Makes a later mixture; `orders` has an entry for each dataset, null where no earlier mixture had the dataset.
  Mixture(std::vector<uint64_t> sizes, const std::vector<double>& weights, PhiloxKey key, std::vector<Order> orders,
          OrderVersion version = OrderVersion::complete_epochs);

  // Follows the order of all samples of all datasets. Such a mixture has no rest().
  Mixture(std::vector<uint64_t> sizes, Order of_all);

  // Returns the sample with this number, counted from the beginning of the mixture.
  DatasetSample at(uint64_t run_sample) const;

  // Returns how each dataset continues once `drawn` samples of the mixture have been drawn. Without weights, several
  // datasets need one bit for each of their samples, and 0.1 to 0.2 us for each sample drawn in the epoch that is under
  // way.
  std::vector<Order> rest(uint64_t drawn) const;

  // Returns the number of samples in one pass over all datasets; with weights, until every sample of every dataset has
  // occurred.
  uint64_t samples() const { return samples_; }

  // Returns the fraction of the run's samples that come from a dataset: its weight with an error of up to 1/4096, or
  // exactly its weight where every weight is a multiple of 1/B with B up to 4096.
  double share(size_t dataset) const;

 private:
  // A sample as an element of its dataset's order.
  struct Element {
    size_t dataset;
    uint64_t index;
  };
  uint64_t slot_of(uint64_t run_sample) const;
  Element element_in_block(uint64_t run_sample) const;
  Element element_in_epoch(uint64_t run_sample) const;
  uint64_t slots_in_block(size_t dataset) const { return begins_[dataset + 1] - begins_[dataset]; }
  bool epoch_ends_inside(uint64_t block, size_t dataset) const;
  Order order_of(size_t dataset) const;
  std::vector<Order> rest_of_blocks(uint64_t drawn) const;
  std::vector<Order> rest_of_epoch(uint64_t drawn) const;
  // Returns the number of the dataset's samples in the first epoch of a mixture without weights.
  uint64_t first_of_dataset(size_t dataset) const { return first_begins_[dataset + 1] - first_begins_[dataset]; }
  void fill_block(const std::vector<double>& weights);

  std::vector<uint64_t> sizes_;
  std::vector<uint64_t> begins_;  // [datasets + 1]: running sums of samples, or with weights of samples in a block
  std::vector<uint64_t> first_begins_;  // without weights, running sums of samples in the first epoch
  std::vector<Order> orders_;           // the datasets' orders in a later mixture; else none
  Order of_all_;                        // null unless the mixture follows one
  PhiloxKey key_;
  bool reshuffle_;
  bool weighted_;
  OrderVersion version_;
  std::shared_ptr<BlockRanks> ranks_;  // null without weights
  uint64_t samples_ = 0;
};

}  // namespace terrace::data
