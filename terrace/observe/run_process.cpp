// Keeps the process of a run as one JSON object.
#include "terrace/observe/run_process.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>

#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json_record.h"

namespace terrace::observe {
namespace {

constexpr const char* run_process_name = ".process.json";
constexpr std::array<std::string_view, 4> process_words = {"running", "finished", "stopped", "failed"};

ProcessIdentity identity_in(const Json& json) { return parse_process_identity(json.get<std::string>()).value(); }

}  // namespace

std::string_view word_of(ProcessState state) { return process_words.at(static_cast<size_t>(state)); }

RunProcess this_run_process(int64_t ranks) {
  const char* job = std::getenv("SLURM_JOB_ID");
  return {.identity = identity_of_this_process(), .ranks = ranks, .job = job == nullptr ? "" : job};
}

void members_of(auto& json, MaybeConst<RunProcess> auto& one) {
  json.as("process", one.identity, &ProcessIdentity::text, identity_in);
  json("ranks", one.ranks)("job", one.job).word("state", one.state, process_words, "has the state");
  json("reason", one.reason)("step", one.step);
}

void write_run_process(const std::filesystem::path& folder, const RunProcess& trainer) {
  try {
    write_text_atomically(folder / run_process_name,
                          json_of_record(trainer).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const std::exception& error) {
    log_warning("{}; terrace status will not know of this process", error.what());
  }
}

std::optional<RunProcess> read_run_process(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / run_process_name)) return std::nullopt;
  try {
    return record_of<RunProcess>(parse_json(read_text(folder / run_process_name)));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace terrace::observe
