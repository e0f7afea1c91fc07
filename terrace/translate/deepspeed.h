// DeepSpeed's configuration in JSON as keys of ours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/translate/translation.h"

namespace terrace::translate {

struct DeepSpeedFile {
  std::string name, json;
};

// Translates the file alone: batch, precision, sharding and optimizer, to be set over a configuration whose tensor
// ranks times stages are `model_ranks`. Throws one UserError with every problem, such as a batch that is not the
// product of the micro-batch, the accumulated micro-batches and the data-parallel ranks.
Translation translate_deepspeed(const DeepSpeedFile& file, int64_t model_ranks, const Wishes& wishes);

// Adds the settings to a translation that has those of the launch's arguments, and problems where the two disagree. The
// devices that the batch implies are added if `wishes` has none.
void add_deepspeed(const DeepSpeedFile& file, int64_t model_ranks, const Wishes& wishes, Translation& translation,
                   std::vector<std::string>& problems);

}  // namespace terrace::translate
