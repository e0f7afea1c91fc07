// Lengths of time as sbatch writes them.
#pragma once

#include <optional>
#include <string>

namespace terrace::launch {

// Seconds of "90" (minutes), "30:00", "12:00:00", "2-00", "2-00:00" or "2-00:00:00", as sbatch reads them, and of
// "1h30m"; no value for other text and for no time at all.
std::optional<double> parse_job_time(const std::string& text);

// "12:00:00", "2-00:00:00"; parts of a second count as a whole one.
std::string job_time_text(double seconds);

}  // namespace terrace::launch
