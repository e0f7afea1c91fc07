// Checks weights and syncs metrics.
#include "terrace/run/hooks/before_write.h"

#include <system_error>

#include "terrace/base/terminal/log.h"
#include "terrace/run/hooks/finite_weights.h"

namespace terrace::run {

void before_write(const checkpoint::State& state, const SharedMetrics& metrics) {
  check_finite(state);
  if (!metrics) return;
  try {
    metrics->sync();
  } catch (const std::system_error& error) {
    log_warning("{}", error.what());
  }
}

}  // namespace terrace::run
