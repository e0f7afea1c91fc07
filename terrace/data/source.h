// Defines what every kind of data offers to training: the micro-batches of any rank in any step, and held-out samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/files/attached_file.h"
#include "terrace/base/text/json_fwd.h"
#include "terrace/base/text/sizes.h"
#include "terrace/data/staging/file_range.h"

namespace terrace::data {

class NodeOrder;
class StagedReader;

// A tensor in the memory of the host, row-major.
struct HostTensor {
  enum class Type { uint8, int32, int64, bf16, fp32, fp64 };
  Type type = Type::fp32;
  std::vector<int64_t> sizes = {};
  std::vector<std::byte> bytes = {};

  size_t elements() const;  // the number of elements by the sizes

  static HostTensor of(std::span<const uint8_t> values, std::vector<int64_t> sizes);
  static HostTensor of(std::span<const int32_t> values, std::vector<int64_t> sizes);
  static HostTensor of(std::span<const int64_t> values, std::vector<int64_t> sizes);
  static HostTensor of(std::span<const float> values, std::vector<int64_t> sizes);
  static HostTensor of(std::span<const double> values, std::vector<int64_t> sizes);
  // Makes a tensor of bf16 numbers, which are the upper halves of fp32 numbers.
  static HostTensor of_bf16(std::span<const uint16_t> values, std::vector<int64_t> sizes);
};

using TensorNames = std::set<std::string, std::less<>>;

// The tensors may have other sizes in every micro-batch; a size may be 0.
struct MicroBatch {
  std::vector<int64_t> samples = {};  // the number of each sample in the run
  std::map<std::string, HostTensor, std::less<>> tensors = {};
  // The number of things in this micro-batch over which each loss of the model is summed, such as tokens, or the sum of
  // their weights.
  std::vector<double> counts = {};
  // The sizes of the micro-batch, such as atoms and edges: all that config::Settings::sizes names, also where no tensor
  // is loaded.
  Sizes sizes = {};
};

// The share of one data-parallel rank in a step.
struct StepShare {
  int64_t step = 0;             // counted from 1
  uint64_t first_sample = 0;    // of the step, counted over the whole run
  int64_t samples = 0;          // of the step, on all ranks together
  int64_t rank = 0, ranks = 1;  // data-parallel
  int64_t micro_batch = 1;      // samples
  Sizes budget = {};            // the most that a micro-batch holds in place of these samples; empty: no budget
  // Once a stop is requested, nobody reads the step's micro-batches, and a source may return without them.
  std::stop_token stop = {};
};

// The share of one data-parallel rank in an evaluation, in which each rank computes one micro-batch in every round.
struct RoundShare {
  int64_t round = 0;            // counted from 0
  int64_t rank = 0, ranks = 1;  // data-parallel
  int64_t micro_batch = 1;      // samples
  Sizes budget = {};            // as in StepShare
};

// The held-out samples of one dataset.
struct HeldOut {
  std::string dataset;            // as the configuration names it
  std::vector<uint64_t> samples;  // their numbers in the validation split, ascending
};

// A loss that a model without training would have, which a line of the output shows for comparison.
struct Baseline {
  std::string key;   // in run.json and the report's JSON: "unigram_loss"
  std::string name;  // "unigram model"
  double loss = 0;
};

// The order of the samples depends on the seed and on numbers of samples only, so a run can continue at any step. All
// ranks open the same source; its functions may be called by several threads at once.
class Source {
 public:
  virtual ~Source() = default;

  // Returns the micro-batches of a rank in a step, with those of their tensors that `names` has: what no unit of the
  // rank reads is not loaded. Counts are right on ranks that load what the loss reads. Every rank of a step has the
  // same number of micro-batches, which may differ from step to step; some micro-batches may be without samples
  // (divided_samples.h).
  virtual std::vector<MicroBatch> micro_batches(const StepShare& share, const TensorNames& names) const = 0;

  // Returns at most `at_most` samples of the validation split, grouped by dataset: the same ones at every call and for
  // every seed. Datasets without such samples are left out.
  virtual std::vector<HeldOut> held_out(uint64_t at_most) const = 0;
  // Returns the number of rounds in which the ranks compute the held-out samples.
  virtual int64_t rounds(const HeldOut& held_out, const RoundShare& share) const;
  // Returns the micro-batch of a rank in a round. A rank that has no samples left computes one whose counts are 0.
  virtual MicroBatch held_out_micro_batch(const HeldOut& held_out, const RoundShare& share,
                                          const TensorNames& names) const = 0;
  // Returns the bytes of text for which the items that count in these samples stand; nothing where that is not known.
  virtual std::optional<uint64_t> held_out_bytes(const HeldOut& /*held_out*/) const { return std::nullopt; }
  // Returns the names of the held-out datasets, as in the configuration; none where nothing is held out.
  virtual std::vector<std::string> held_out_datasets() const = 0;

  // Returns the training samples of one pass over the data; 0 where that is not known.
  virtual uint64_t samples_in_epoch() const { return 0; }
  // Returns how much of what the family counts (config::Family::items), such as tokens, the training samples first ..
  // first + samples - 1 have.
  virtual int64_t items(uint64_t first, int64_t samples) const = 0;

  // Returns the identity by which checkpoints know the data: a run continues only where it is the same. Computing the
  // identity may take seconds, so only one rank does.
  virtual Json identity() const = 0;
  // Returns in words how the identity that a checkpoint has differs from that of these data; "" where nothing differs
  // that matters after `steps_done` steps: the data of later phases may be others.
  virtual std::string difference(const Json& older, const Json& own, int64_t steps_done) const;

  // Throws UserError where the older terrace that recorded `older` made other labels of the same data, so that the run
  // would go on with another aim. `own` is the identity of these data.
  virtual void check_labels_of(const Json& /*older*/, const Json& /*own*/) const {}

  // Makes the training samples follow the order of the run whose checkpoint has the identity `older`, where versions of
  // terrace order them differently, and says so in `own`, the identity of these data. Called before several threads use
  // the source.
  virtual void follow_order_of(const Json& /*older*/, Json& /*own*/) {}

  // Returns the baselines of the held-out data, computed once, by one rank; none where nothing is held out.
  virtual std::vector<Baseline> baselines() const { return {}; }
  // Returns the files that each checkpoint keeps, such as a tokenizer or the means of variables.
  virtual std::vector<AttachedFile> attached_files() const { return {}; }

  // Returns the large files from which the samples are read, in the same order on all ranks; none where a family's data
  // cannot be staged on a disk of the node (docs/staging.md).
  virtual std::vector<const MappedFile*> staged_files() const { return {}; }
  // Return what micro_batches() and held_out_micro_batch() read of staged_files() for the same arguments, about in the
  // order of their reads.
  virtual FileRanges reads(const StepShare& /*share*/, const TensorNames& /*names*/) const { return {}; }
  virtual FileRanges held_out_reads(const HeldOut& /*held_out*/, const RoundShare& /*share*/,
                                    const TensorNames& /*names*/) const {
    return {};
  }
  // Returns the order of the training samples where data.order = "node"; else null.
  virtual const NodeOrder* node_order() const { return nullptr; }
  // Makes `staged` read the files of staged_files() from now on. Called before several threads use the source.
  virtual void read_by(std::shared_ptr<const StagedReader> staged) { staged_ = std::move(staged); }

 protected:
  const StagedReader* staged() const { return staged_.get(); }  // null where nothing is staged

 private:
  std::shared_ptr<const StagedReader> staged_;
};

}  // namespace terrace::data
