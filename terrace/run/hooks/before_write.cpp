// Checks weights and syncs metrics.
#include "terrace/run/hooks/before_write.h"

#include <system_error>

#include "terrace/base/terminal/log.h"
#include "terrace/run/hooks/finite_weights.h"

namespace terrace::run {

void sync_metrics(const SharedMetrics& metrics) {
  if (!metrics) return;
  try {
    metrics->sync();
  } catch (const std::system_error& error) {
    log_warning("{}", error.what());
  }
}

void before_write(const checkpoint::State& state, const SharedMetrics& metrics) {
  check_finite(state);
  sync_metrics(metrics);
}

}  // namespace terrace::run
