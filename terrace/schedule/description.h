// The part of a family that describes its models without building them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "terrace/base/context_places.h"
#include "terrace/base/text/sizes.h"
#include "terrace/config/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::schedule {

// The sizes of one sample by name: the tokens of a sequence, or the atoms and edges of a graph, in which samples
// differ. Both have the same names.
struct SampleSizes {
  std::map<std::string, double, std::less<>> average = {};
  Sizes largest = {};
};

// Bytes of prepared data that are read for one sample of average size: by the stage of a pipeline that has the model's
// inputs, by the one that has the loss, and by a stage that has both, which reads what both need once.
struct SampleBytes {
  double inputs = 0, loss = 0, both = 0;  // 0: not known
};

// The division of the positions of a sample among layout.context ranks.
struct ContextWork {
  ContextPlaces places;  // of length 0 for families whose samples cannot be cut
  // The routes by which attention can reach the keys of other ranks, and of those that take equal times the first is
  // taken; not empty.
  std::vector<config::ContextRoute> routes = {config::ContextRoute::ring};
};

// All functions are called with configurations of the family.
class Description {
 public:
  virtual ~Description() = default;

  // The figures of a micro-batch with the options' samples and sizes, which have all names of sample_sizes().
  virtual UnitTable unit_table(const config::Config& config, const UnitTableOptions& options) const = 0;
  // The sizes of the training samples, for planning: those of [model] and [data], or of prepared data that [data] names
  // if they are there. They have config::Family::items, where items are not samples, and config::Settings::sizes.
  virtual SampleSizes sample_sizes(const config::Config&) const { return {}; }
  // Bytes of samples as `terrace data prepare` stores them.
  virtual SampleBytes sample_bytes(const config::Config&) const { return {}; }
  virtual ContextWork context_work(const config::Config&) const { return {}; }
  // Why each rank must take a step as one micro-batch, as the start of a sentence: "model.norm = \"batch\" takes ..".
  // Empty: it need not.
  virtual std::string why_one_micro_batch(const config::Config&) const { return ""; }
};

// The description of the configuration's family, and the unit table that it gives.
const Description& description_of(const config::Config& config);
UnitTable unit_table(const config::Config& config, UnitTableOptions options = {});
// The route of context attention: that of the layout or, where it is automatic, the first that the family allows.
config::ContextRoute context_route(const config::Config& config);
// The sizes of so many samples of average size, rounded; at least 1 of what samples have.
Sizes average_sizes(const SampleSizes& sizes, double samples);
// Items (config::Family::items) of so many samples of average size, such as the tokens of sequences.
int64_t average_items(const config::Config& config, int64_t samples);

}  // namespace terrace::schedule
