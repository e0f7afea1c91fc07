// The file job.json in a run's folder: which job of Slurm trains the run, and where its log is. terrace launch --submit
// writes it, and the job's script writes it again when the job begins.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace terrace::launch {

inline constexpr const char* job_record_name = "job.json";

struct JobRecord {
  std::string job;    // Slurm's number
  std::string log;    // path of the file with the job's output
  int64_t steps = 0;  // train.steps; 0: not known
};

// The file's text; `job` and `log` may hold variables of a shell.
std::string text_of(const JobRecord& record);
// No value where there is no such file, or none that can be read.
std::optional<JobRecord> read_job_record(const std::filesystem::path& folder);

}  // namespace terrace::launch
