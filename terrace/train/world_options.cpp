// Takes the communication options from [layout] and [checkpoint].
#include "terrace/train/world_options.h"

#include <limits>

#include "terrace/base/system/crash_reports.h"
#include "terrace/train/report_request.h"

namespace terrace::train {

comm::WorldOptions world_options(const config::Config& config) {
  return {
      .timeout_seconds = config.layout.timeout > 0 ? config.layout.timeout : std::numeric_limits<double>::infinity(),
      .rank_order = config.layout.deterministic,
      .check_calls = config.layout.check_calls,
      .share_gpus = config.layout.share_gpus,
      .flight_folder = config.checkpoint.folder,
      .crash_folder = crash_folder,
      .report_requests = &report_requests()};
}

}  // namespace terrace::train
