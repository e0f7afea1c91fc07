// Reads and writes job.json.
#include "terrace/launch/job_record.h"

#include <exception>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"

namespace terrace::launch {

std::string text_of(const JobRecord& record) {
  const Json json = {{"job", record.job}, {"log", record.log}, {"steps", record.steps}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<JobRecord> read_job_record(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / job_record_name)) return std::nullopt;
  try {
    const Json json = parse_json(read_text(folder / job_record_name));
    return JobRecord{.job = json.at("job"), .log = json.at("log"), .steps = json.at("steps")};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace terrace::launch
