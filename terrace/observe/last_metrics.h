// Reads the end of a run's metrics, for those who ask often how far a run is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "terrace/observe/metrics.h"

namespace terrace::observe {

// Reads metrics as read_metrics() does, but only the last lines of the file, at most `most_bytes` together. Returns no
// lines where there is no file.
RunMetrics read_last_metrics(const std::filesystem::path& folder, int64_t most_bytes = 65'536);

// The time when the line of the last step was written, in seconds since the epoch by the clock of the machine that
// trains. No value where there is no step yet, or an earlier version wrote the line.
std::optional<double> time_of_last_step(const std::filesystem::path& folder, int64_t most_bytes = 65'536);

}  // namespace terrace::observe
