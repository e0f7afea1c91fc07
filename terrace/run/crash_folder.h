// The folder that a crash of a run leaves in the run's folder: crashes/START, where START is when the run began.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "terrace/base/system/crash_reports.h"
#include "terrace/config/config.h"

namespace terrace::run {

// Crashes that are kept; when another one is written, the oldest folder is removed.
inline constexpr size_t kept_crashes = 5;

// The folder of the crash of a run that begins now. It is not created.
std::filesystem::path new_crash_folder(const std::filesystem::path& run_folder);

struct CrashedRun {
  const config::Config& config;
  int64_t rank = -1;  // -1: ranks are threads of this process
  int64_t ranks = 1;
  std::string build_facts = {};
};

// Writes rank_003.json, or threads.json of ranks that are threads: host, process, reason, thread and stack. The first
// process of the run to come also writes crash.json (time, reason, versions, command line and environment) and copies
// resolved.toml and run.json; it says in the log where the folder is. Values of variables whose names tell that they
// are secret are left out. What else is in the folder: the last calls of each rank (comm/flight_recorder.h). Throws
// std::exception where the folder cannot be written.
void write_crash(const Crash& crash, const CrashedRun& run);

}  // namespace terrace::run
