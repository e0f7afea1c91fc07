// Finds ranks that compute wrong numbers: ranks compute each other's first micro-batch of a step again, which must give
// the same bits.
//
// That a step can be repeated to the bit, and what two and three results say of transient and lasting faults, is the
// idea of Megatron-LM's rerun state machine; here another rank repeats, so that a rank which always computes wrong is
// found too.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/models/model.h"
#include "terrace/parallel/cut_model.h"
#include "terrace/train/first_digests.h"
#include "terrace/train/training_step.h"

namespace terrace::train {

class ComputationCheck {
 public:
  // Gives the first micro-batch of a data-parallel rank in the present step, on the device.
  using FirstBatch = std::function<models::Batch(int64_t data_rank)>;

  // All arguments outlive the object.
  ComputationCheck(comm::World& world, models::Model& model, parallel::CutModel& cut, TrainingStep& step);

  // Called by all ranks before a step's computation: computes the first micro-batch of another data-parallel rank,
  // whose distance is drawn for the seed and the step, and watches the step's own first one. Leaves no trace in
  // weights, buffers and errors of quantized gradients. The other rank is this one itself if it is alone, or if the
  // model sums over the samples of all data-parallel ranks (nn::Buffer), since sums in another order have other bits.
  void begin_step(const models::Pass& pass, const FirstBatch& first_batch);
  // Whether begin_step() was called for the present step.
  bool watches() const { return watches_; }
  // Called by all ranks when the step's gradients are complete. Whether all digests agree; the same on all ranks.
  bool agrees();
  // Called by all ranks if not, after the step, which made no update: computes micro-batches again, and names the ranks
  // whose results the others outvote, as findings_of_all() does.
  std::string findings(const models::Pass& pass, const FirstBatch& first_batch);

 private:
  // One of the results that each rank has.
  struct Result {
    int64_t distance = 0;  // to the data-parallel rank whose micro-batch it is
    std::vector<uint64_t> digests = {};
  };
  // The vote of the results of all ranks for one rank's micro-batch.
  struct Verdict {
    bool all_equal = true, has_majority = false;
    uint64_t majority = 0;           // the digest of a result's digests
    int64_t holder = 0, result = 0;  // the first data-parallel rank, with the number of its result, that has it
    int64_t other_holder = 0, other_result = 0;  // the first one that has another digest
  };
  struct Finding {
    int64_t position;  // FirstDigests::position_of()
    std::string text;
  };

  void compute(const models::Pass& pass, const FirstBatch& first_batch, int64_t distance, FirstDigests& digests);
  int64_t drawn_distance(uint64_t seed, int64_t step) const;
  int64_t data_ranks() const { return cut_.mesh.size("data"); }
  // In groups.everyone.
  int64_t member_of(int64_t data_rank) const { return members_[static_cast<size_t>(data_rank)]; }
  int64_t at_distance(int64_t data_rank, int64_t distance) const;
  Verdict verdict_of(int64_t data_rank, const std::vector<Result>& own, const std::vector<uint64_t>& words) const;
  Finding own_finding(const std::vector<Result>& own);

  comm::World& world_;
  models::Model& model_;
  parallel::CutModel& cut_;
  TrainingStep& step_;
  std::string place_;
  std::vector<int64_t> members_;  // of groups.everyone, by data-parallel rank
  bool watches_ = false;
  int64_t distance_ = 0;
  FirstDigests own_, other_;
};

}  // namespace terrace::train
