// Keeps the process of a run as one JSON object.
#include "terrace/observe/run_process.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>

#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json.h"

namespace terrace::observe {
namespace {

constexpr const char* run_process_name = ".process.json";
constexpr std::array<std::string_view, 4> process_words = {"running", "finished", "stopped", "failed"};

}  // namespace

std::string_view word_of(ProcessState state) { return process_words.at(static_cast<size_t>(state)); }

RunProcess this_run_process(int64_t ranks) {
  const char* job = std::getenv("SLURM_JOB_ID");
  return {.identity = identity_of_this_process(), .ranks = ranks, .job = job == nullptr ? "" : job};
}

void write_run_process(const std::filesystem::path& folder, const RunProcess& trainer) {
  const Json json = {{"process", trainer.identity.text()}, {"ranks", trainer.ranks},   {"job", trainer.job},
                     {"state", word_of(trainer.state)},    {"reason", trainer.reason}, {"step", trainer.step}};
  try {
    write_text_atomically(folder / run_process_name, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const std::exception& error) {
    log_warning("{}; terrace status will not know of this process", error.what());
  }
}

std::optional<RunProcess> read_run_process(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / run_process_name)) return std::nullopt;
  try {
    const Json json = parse_json(read_text(folder / run_process_name));
    const auto identity = parse_process_identity(json.at("process").get<std::string>());
    const auto word = std::ranges::find(process_words, json.at("state").get<std::string>());
    if (!identity || word == process_words.end()) return std::nullopt;
    return RunProcess{.identity = *identity,
                      .ranks = json.at("ranks"),
                      .job = json.at("job"),
                      .state = static_cast<ProcessState>(word - process_words.begin()),
                      .reason = json.at("reason"),
                      .step = json.at("step")};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace terrace::observe
