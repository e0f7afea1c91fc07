// Keeps the list as JSON.
#include "terrace/train/left_out_steps.h"

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"

namespace terrace::train {
namespace {

namespace fs = std::filesystem;

fs::path path_of(const fs::path& run_folder) { return run_folder / spikes_folder / "left_out_steps.json"; }

}  // namespace

std::set<int64_t> read_left_out_steps(const fs::path& run_folder) {
  const fs::path path = path_of(run_folder);
  if (!fs::exists(path)) return {};
  try {
    return Json::parse(read_text(path)).at("steps").get<std::set<int64_t>>();
  } catch (const Json::exception& error) {
    throw UserError::of(
        "{} is no list of left-out steps ({}); write it as {{\"steps\": [12]}}, or remove it to train on all samples",
        path.string(), error.what());
  }
}

void write_left_out_steps(const fs::path& run_folder, const std::set<int64_t>& steps) {
  const fs::path path = path_of(run_folder);
  fs::create_directories(path.parent_path());
  write_text_atomically(path, Json{{"steps", steps}}.dump(2) + "\n");
}

void remove_left_out_steps(const fs::path& run_folder) {
  std::error_code error;
  fs::remove(path_of(run_folder), error);
}

}  // namespace terrace::train
