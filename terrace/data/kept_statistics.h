// Says whose statistics normalise the data of a run: those of the file that data.statistics names, those of the
// checkpoint with whose weights the run began, or those of the data themselves.
#pragma once

#include <string>

namespace terrace::data {

// The word of data.statistics for the statistics of the data, also where a run begins with the weights of a checkpoint.
inline constexpr const char* statistics_of_data = "data";

inline bool names_statistics_file(const std::string& statistics) {
  return !statistics.empty() && statistics != statistics_of_data;
}

}  // namespace terrace::data
