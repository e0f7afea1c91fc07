// The segments of a model as verdicts name them.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::verify {

struct NamedSegment {
  std::string name;                     // "blocks.1": what the names of its parameters have in common; "" for none
  std::vector<std::string> parameters;  // in order
};

// In the order of the model, as the layout's pipeline shares it out.
std::vector<NamedSegment> named_segments(const config::Config& config);

}  // namespace terrace::verify
