// The part of a family that knows its data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/attached_file.h"
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
  // A sentence for every problem with the files that [model] and [data] name; called before the files are opened for
  // training.
  virtual std::vector<std::string> problems_with_files(const config::Config& config) const = 0;
  // The contents of each of these files, in words and as a checksum, which must be equal on all ranks.
  virtual std::vector<std::pair<std::string, std::string>> file_facts(const config::Config& config) const = 0;

  // Where the records are staged; nowhere for a family that lacks the keys.
  virtual StageConfig stage(const config::Config&) const { return {}; }

  // Whether hold_out() is possible: if not, models are evaluated on the data of their run only.
  virtual bool evaluates_other_data() const { return false; }
  // Makes these datasets the only data, all of them held out, to be read with the files that a checkpoint keeps.
  virtual void hold_out(config::Config&, const std::vector<std::string>& /*datasets*/,
                        const AttachedPaths& /*attached*/) const {}

  // What an evaluation outside of training counts of the held-out data, where a family leaves something out in
  // training.
  struct HeldOutChoice {
    bool every_item = false;  // such as the tokens behind the last whole sample of a corpus
    int64_t stride = 0;       // between the first items of neighbouring samples, which overlap; 0: they do not
  };
  // Throws UserError for a stride that the family or the model cannot have.
  virtual void choose_held_out(config::Config& config, const HeldOutChoice& choice) const;

  // Makes the copies that a checkpoint keeps (data::Source::attached_files) the files of the configuration.
  virtual void take_attached(config::Config&, const AttachedPaths& /*attached*/) const {}

  // For a run that began with the weights of another checkpoint: takes the statistics by which that one's data were
  // normalised, from the copies that it keeps, unless the configuration names others. Returns a sentence about that for
  // the log; "" where nothing is taken.
  virtual std::string keep_statistics(config::Config&, const AttachedPaths& /*attached*/) const { return ""; }

  // How terrace data prepare makes datasets of the family; null where it makes none.
  virtual const Preparation* preparation() const { return nullptr; }

  // For verify: samples first .. first + count - 1 as a function of train.seed and their numbers.
  virtual MicroBatch random_batch(const config::Config& config, int64_t first, int64_t count) const = 0;
};

// Of the configuration's family.
const DataOfFamily& data_of_family(const config::Config& config);

}  // namespace terrace::data
