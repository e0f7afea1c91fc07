// Defines everything that a family of models provides: a new family fills this struct in, as docs/model.md shows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/data/source.h"
#include "terrace/models/cost/family.h"
#include "terrace/models/model.h"
#include "terrace/nn/module.h"

namespace terrace::models {

// All functions are called with configurations of the family.
struct Family : PlannedFamily {
  // The whole model for one device; build_model() gives its parameters their marks.
  std::unique_ptr<Model> (*build)(const config::Config&, const nn::Build&) = nullptr;
  // Throws UserError that names the file and the problem.
  std::unique_ptr<data::Source> (*open_data)(const config::Config&) = nullptr;
  // A sentence for every problem with the files that [model] and [data] name; called before the files are opened for
  // training.
  std::vector<std::string> (*problems_with_files)(const config::Config&) = nullptr;
  // Makes these corpora the only data, all of them held out, and checks them with this tokenizer ("": with none).
  void (*hold_out)(config::Config&, const std::vector<std::string>& corpora, const std::string& tokenizer) = nullptr;
  // The contents of each of these files, in words and as a checksum, which must be equal on all ranks.
  std::vector<std::pair<std::string, std::string>> (*file_facts)(const config::Config&) = nullptr;
  // For verify: makes [model] so small that a laptop trains it in a moment, but keeps its kinds of layers and the
  // ratios of their sizes. The layout must still fit the model.
  void (*shrink)(config::Config&) = nullptr;
  // For verify: samples first .. first + count - 1 as a function of train.seed and their numbers.
  data::MicroBatch (*random_batch)(const config::Config&, int64_t first, int64_t count) = nullptr;
};

// The families of this program.
const config::Families& families();
// The family of the configuration; aborts if it is one of planned_families(), which build no models.
const Family& family_of(const config::Config& config);

// Builds the model of the configuration and gives its parameters the marks of its unit table. Aborts if names or shapes
// differ from the table, or if a parameter stays unmarked.
std::unique_ptr<Model> build_model(const config::Config& config, const nn::Build& build);

}  // namespace terrace::models
