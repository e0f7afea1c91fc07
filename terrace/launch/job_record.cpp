// Reads and writes job.json.
#include "terrace/launch/job_record.h"

#include <exception>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json_record.h"

namespace terrace::launch {

void members_of(auto& json, MaybeConst<JobRecord> auto& one) {
  json("job", one.job)("log", one.log)("steps", one.steps);
}

std::string text_of(const JobRecord& record) {
  return json_of_record(record).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<JobRecord> read_job_record(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / job_record_name)) return std::nullopt;
  try {
    return record_of<JobRecord>(parse_json(read_text(folder / job_record_name)));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace terrace::launch
