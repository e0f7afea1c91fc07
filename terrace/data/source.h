// Defines Source, from which every kind of data derives: the kind gives samples, and Source makes of them what training
// takes, which is the micro-batches of a rank in a step or an evaluation and what is read for them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/files/attached_file.h"
#include "terrace/base/text/json_fwd.h"
#include "terrace/base/text/sizes.h"
#include "terrace/data/divided_samples.h"
#include "terrace/data/micro_batch.h"
#include "terrace/data/staging/file_range.h"

namespace terrace::data {

class Mixture;
class NodeOrder;
class StagedReader;

// A loss that a model without training would have, which a line of the output shows for comparison.
struct Baseline {
  std::string key;   // in run.json and the report's JSON: "unigram_loss"
  std::string name;  // "unigram model"
  double loss = 0;
};

// Some samples, by their numbers.
struct Samples {
  std::span<const uint64_t> numbers;  // in the run, or in the validation split as HeldOut::samples
  const HeldOut* held_out = nullptr;  // the samples of an evaluation to which these belong; null: samples of the run
};

// The validation split of one dataset.
struct HeldOutPart {
  std::string dataset;   // as the configuration names it
  uint64_t samples = 0;  // may be 0
};

// Each kind of data derives a class that gives samples. This class divides those of a step and of an evaluation among
// the ranks.
// The order of the samples depends on the seed and on numbers of samples only, so a run can continue at any step. All
// ranks open the same source; its functions may be called by several threads at once.
class Source {
 public:
  virtual ~Source() = default;

  // Returns the micro-batches of a rank in a step, with those of their tensors that `names` has: what no unit of the
  // rank reads is not loaded. Counts are right on ranks that load what the loss reads. Every rank of a step has the
  // same number of micro-batches, which may differ from step to step; some micro-batches may be without samples
  // (divided_samples.h).
  std::vector<MicroBatch> micro_batches(const StepShare& share, const TensorNames& names) const;
  // Returns the first ones of these micro-batches, at most `count`.
  std::vector<MicroBatch> first_micro_batches(const StepShare& share, int64_t count, const TensorNames& names) const;
  // Returns the numbers of the samples in each of these micro-batches.
  std::vector<std::vector<uint64_t>> sample_numbers(const StepShare& share) const { return own_numbers(share); }
  // Returns what a reader knows a training sample by, as an object for records of a run: its number, and what the kind
  // of data adds, such as the text of its tokens, the times of its fields or the structure in its dataset.
  Json sample_record(uint64_t sample) const;
  // Returns how much of what the family counts (config::Family::items), such as tokens, the training samples first ..
  // first + samples - 1 have.
  int64_t items(uint64_t first, int64_t samples) const;

  // Returns at most `at_most` samples of the validation split, grouped by dataset: the same ones at every call and for
  // every seed, the first ones of held_out_order() or, without that, samples taken evenly over all datasets. Datasets
  // without such samples are left out.
  std::vector<HeldOut> held_out(uint64_t at_most) const;
  // Returns the names of the held-out datasets, as in the configuration; none where nothing is held out.
  std::vector<std::string> held_out_datasets() const;
  // Returns the number of rounds in which the ranks compute the held-out samples.
  int64_t rounds(const HeldOut& held_out, const RoundShare& share) const { return rounds_.rounds(held_out, share); }
  // Returns the micro-batch of a rank in a round. A rank that has no samples left computes one whose counts are 0.
  MicroBatch held_out_micro_batch(const HeldOut& held_out, const RoundShare& share, const TensorNames& names) const;

  // Return what micro_batches() and held_out_micro_batch() read of staged_files() for the same arguments, about in the
  // order of their reads.
  FileRanges reads(const StepShare& share, const TensorNames& names) const;
  FileRanges held_out_reads(const HeldOut& held_out, const RoundShare& share, const TensorNames& names) const;

  // Returns the bytes of text for which the items that count in these samples stand; nothing where that is not known.
  virtual std::optional<uint64_t> held_out_bytes(const HeldOut& /*held_out*/) const { return std::nullopt; }
  // Returns the training samples of one pass over the data; 0 where that is not known.
  virtual uint64_t samples_in_epoch() const { return 0; }
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
  // Returns the order of the training samples where data.order = "node"; else null.
  virtual const NodeOrder* node_order() const { return nullptr; }
  // Makes `staged` read the files of staged_files() from now on. Called before several threads use the source.
  virtual void read_by(std::shared_ptr<const StagedReader> staged) { staged_ = std::move(staged); }

 protected:
  // Returns every dataset of which samples are held out, in the order of the configuration.
  virtual std::vector<HeldOutPart> held_out_parts() const = 0;
  // Returns the order of all held-out samples, which are numbered by their place in it; null where each dataset numbers
  // its own.
  virtual const Mixture* held_out_order() const { return nullptr; }
  // Makes the micro-batch of some samples. There may be none of them, as for a rank that has no samples left in a
  // round.
  virtual MicroBatch micro_batch(const Samples& samples, const TensorNames& names) const = 0;
  // Returns the items of a training sample.
  virtual int64_t items_of(uint64_t sample) const = 0;
  // Adds to sample_record(), which has the sample's number as "sample".
  virtual void describe(uint64_t /*sample*/, Json& /*record*/) const {}
  // Returns the sizes in which samples differ, by which a budget divides them; none where all samples have equal sizes.
  virtual SizesOfSamples sizes_of(const Samples& /*samples*/) const { return {}; }
  // Returns the cost by which a step's samples are divided; nothing where the ranks have equal shares without a budget.
  virtual std::optional<SampleCost> cost() const { return std::nullopt; }
  // Returns what micro_batch() reads of staged_files() for the same arguments.
  virtual FileRanges ranges_of(const Samples& /*samples*/, const TensorNames& /*names*/) const { return {}; }

  const StagedReader* staged() const { return staged_.get(); }  // null where nothing is staged

 private:
  std::vector<std::vector<uint64_t>> own_numbers(const StepShare& share) const;
  std::vector<uint64_t> own_numbers(const HeldOut& held_out, const RoundShare& share) const;

  std::shared_ptr<const StagedReader> staged_;
  DividedRounds rounds_{
      [this](const HeldOut& held_out) { return sizes_of({.numbers = held_out.samples, .held_out = &held_out}); }};
};

}  // namespace terrace::data
