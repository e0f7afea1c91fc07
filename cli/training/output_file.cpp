// Words what stands in the way of a file.
#include "cli/training/output_file.h"

#include "terrace/base/error.h"

namespace terrace::cli {

void check_folder_of(const std::filesystem::path& file, const std::string& name) {
  const std::filesystem::path folder = file.parent_path();
  if (folder.empty() || std::filesystem::is_directory(folder)) return;
  throw UserError::of("{}: the folder {} does not exist; make it first", name, folder.string());
}

void check_new_file(const std::string& path, const std::string& option, const std::string& example, bool overwrite) {
  if (path.empty()) return;
  if (std::filesystem::is_directory(path)) {
    throw UserError::of("{} {} is a folder; name a file in it, such as {}", option, path,
                        (std::filesystem::path(path) / example).string());
  }
  check_folder_of(path, option + " " + path);
  if (std::filesystem::exists(path) && !overwrite) {
    throw UserError::of("{} exists; choose another {}, or give --overwrite to replace it", path, option);
  }
}

}  // namespace terrace::cli
