// The part of a family that knows its data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/context_places.h"
#include "terrace/base/files/attached_file.h"
#include "terrace/config/config.h"
#include "terrace/data/preparation.h"
#include "terrace/data/source.h"
#include "terrace/data/staging/stage_config.h"

namespace terrace::data {

// All functions are called with configurations of the family.
class DataOfFamily {
 public:
  virtual ~DataOfFamily() = default;

  // Throws UserError that names the file and the problem.
  virtual std::unique_ptr<Source> open(const config::Config& config) const = 0;
  // Returns a sentence for every problem with the files that [model] and [data] name. Called before the files are
  // opened for training.
  virtual std::vector<std::string> problems_with_files(const config::Config& config) const = 0;
  // Returns the contents of each of the files that [model] and [data] name, in words and as a checksum, which must be
  // equal on all ranks.
  virtual std::vector<std::pair<std::string, std::string>> file_facts(const config::Config& config) const = 0;

  // Returns where the records are staged: nowhere for a family that lacks the keys.
  virtual StageConfig stage(const config::Config&) const { return {}; }

  // Returns whether hold_out() is possible: if not, models are evaluated on the data of their run only.
  virtual bool evaluates_other_data() const { return false; }
  // Makes these datasets the only data, all of them held out, to be read with the files that a checkpoint keeps.
  virtual void hold_out(config::Config&, const std::vector<std::string>& /*datasets*/,
                        const AttachedPaths& /*attached*/) const {}

  // Says which held-out data an evaluation outside of training counts, where a family leaves something out in training.
  struct HeldOutChoice {
    bool every_item = false;  // counts all items, such as the tokens behind the last whole sample of a corpus
    int64_t stride = 0;       // items between the first ones of neighbouring samples, which overlap; 0: they do not
  };
  // Throws UserError for a stride that the family or the model cannot have.
  virtual void choose_held_out(config::Config& config, const HeldOutChoice& choice) const;

  // Makes the copies that a checkpoint keeps (data::Source::attached_files) the files of the configuration.
  virtual void take_attached(config::Config&, const AttachedPaths& /*attached*/) const {}

  // Takes the statistics of another checkpoint, with whose weights a run began, from the copies that the checkpoint
  // keeps: those by which its data were normalised. Does nothing where the configuration names others. Returns a
  // sentence about what was taken for the log; "" where nothing was.
  virtual std::string keep_statistics(config::Config&, const AttachedPaths& /*attached*/) const { return ""; }

  // Returns what makes datasets of the family in terrace data prepare; null where the family makes none.
  virtual const Preparation* preparation() const { return nullptr; }

  // Makes a batch for verify and rehearse, which read no files: each sample is a function of train.seed and its number.
  virtual MicroBatch random_batch(const config::Config& config, std::span<const int64_t> samples) const = 0;
  // Leaves of the tensors by position those of this rank, and of the counts its share (docs/context.md). Called for
  // families with config::Settings::cuts_positions.
  virtual void cut_positions(MicroBatch& batch, const ContextPlaces& places, int64_t rank) const;
};

// Returns the numbers first .. first + count - 1.
std::vector<int64_t> consecutive_samples(int64_t first, int64_t count);

// Returns the part of the configuration's family that knows its data.
const DataOfFamily& data_of_family(const config::Config& config);

}  // namespace terrace::data
