// The folder of a trial that runs as a program, and what its end means.
#pragma once

#include <filesystem>
#include <string>

#include "terrace/base/system/child_process.h"
#include "terrace/base/text/json.h"
#include "terrace/search/evaluate.h"

namespace terrace::search {

// The folder of a trial inside the search's folder. A job that continues a trial has the same folder.
std::filesystem::path trial_folder(const std::filesystem::path& search_folder, int64_t trial);
// Makes the folder of the job's trial, empty if the job begins it.
std::filesystem::path open_trial_folder(const std::filesystem::path& search_folder, const TrialJob& job);

// The path of the file in the trial's folder that holds the trial's output.
std::filesystem::path log_path(const std::filesystem::path& trial_folder);
// The last lines of the output, at most `most` characters of them.
std::string end_of_log(const std::filesystem::path& trial_folder, size_t most = 400);

ChildLimits trial_limits(const StudySettings& settings);
// The failure of a program that broke a limit, or else `failure` with the end of its output as reason.
Outcome failed_outcome(const ChildEnd& end, const std::string& failure, const ChildLimits& limits,
                       const std::filesystem::path& trial_folder);
// The study's figures among the numbers of an object, NaN where it lacks one. A failure if it lacks one that is a goal.
Outcome outcome_of(const Study& study, const Json& given);

}  // namespace terrace::search
