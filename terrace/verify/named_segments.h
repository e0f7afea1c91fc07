// Names the segments of a model for verdicts.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::verify {

struct NamedSegment {
  std::string name;                     // "blocks.1": what the names of its parameters have in common; "" if nothing
  std::vector<std::string> parameters;  // in order
};

// The segments in the order of the model, as the layout's pipeline divides it.
std::vector<NamedSegment> named_segments(const config::Config& config);

}  // namespace terrace::verify
