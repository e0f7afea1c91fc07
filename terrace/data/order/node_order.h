// The order in which each node reads a share of the data of its own: a pure function of seed and sample number.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/base/random.h"
#include "terrace/data/order/dataset_order.h"
#include "terrace/data/order/order_config.h"

namespace terrace::data {

// The samples of the data are cut into shares of consecutive samples whose sizes differ by at most one. The global
// batch is cut into as many slots of equal size, the first of which the first data-parallel ranks read. In a round
// each slot draws from one share, in epochs of a shuffled order of the share's own; after each round the share of a
// slot is the one that the next slot had, so that a share has been in every slot after as many rounds as there are
// shares. A round begins with a step and lasts as many steps as the largest share needs for `exchange_epochs` epochs.
//
// What a share gives in a step does not depend on its slot. So each share has its own epochs, in which each of its
// samples occurs once; a share that has one sample less begins them a little earlier.
class NodeOrder : public DatasetOrder {
 public:
  struct Request {
    uint64_t size = 0;    // samples, at least `shares`
    uint64_t shares = 1;  // divides `batch`
    uint64_t batch = 1;   // samples of every step
    uint64_t exchange_epochs = 1;
    PhiloxKey key = {};
  };
  // Throws UserError where there are fewer samples than shares.
  explicit NodeOrder(const Request& request);

  // Returns the sample of the data that is sample `run_sample` of the run.
  uint64_t at(uint64_t run_sample) const override;
  uint64_t left_in_epoch(uint64_t run_sample) const override { return request_.size - run_sample % request_.size; }

  uint64_t shares() const { return request_.shares; }
  uint64_t batch() const { return request_.batch; }
  // Return the round, counted from 0, of a step that begins with this sample of the run, and the sample with which the
  // next round begins.
  uint64_t round(uint64_t first_sample) const;
  uint64_t next_round_begins(uint64_t first_sample) const;
  // Returns the share that the slot draws from in the round.
  uint64_t share_of(uint64_t slot, uint64_t round) const { return (slot + round) % request_.shares; }

 private:
  uint64_t samples_of_slot() const { return request_.batch / request_.shares; }  // in a step
  uint64_t begin_of(uint64_t share) const { return share * request_.size / request_.shares; }

  Request request_;
  uint64_t steps_of_round_;
};

// Returns the order of datasets with so many training samples, as the configuration has it; null unless that is the
// order of nodes and something is trained, in steps of `global_batch` samples.
std::shared_ptr<const NodeOrder> node_order_of(const OrderConfig& config, const std::vector<uint64_t>& sizes,
                                               int64_t global_batch, PhiloxKey key);

}  // namespace terrace::data
