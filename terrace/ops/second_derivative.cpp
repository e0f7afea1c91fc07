// Looks whether torch records the backward that runs.
#include "terrace/ops/second_derivative.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <stdexcept>

namespace terrace::ops {

void refuse_second_derivative(const char* operation) {
  if (!at::GradMode::is_enabled()) return;
  throw std::runtime_error(
      fmt::format("a derivative of the derivative of {} was asked for (create_graph), which this operation does not "
                  "have; compute what is differentiated twice with torch's own operations",
                  operation));
}

}  // namespace terrace::ops
