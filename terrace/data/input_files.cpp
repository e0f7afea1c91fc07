// Searches folders and detects formats by name.
#include "terrace/data/input_files.h"

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

TextFormat format_of(fs::path name, FormatChoice choice) {
  if (choice == FormatChoice::plain) return TextFormat::plain;
  if (choice == FormatChoice::json_lines) return TextFormat::json_lines;
  const std::string packed = name.extension();
  if (packed == ".gz" || packed == ".dz" || packed == ".zst") name = name.stem();
  const std::string extension = name.extension();
  const bool json = extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
  return json ? TextFormat::json_lines : TextFormat::plain;
}

void add_folder(const fs::path& folder, std::vector<fs::path>& files) {
  std::vector<fs::directory_entry> entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with('.')) entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.path().native() < b.path().native(); });
  for (const auto& entry : entries) {
    // A link to a folder may lead back up, so only real folders are entered.
    if (entry.is_directory() && !entry.is_symlink()) {
      add_folder(entry.path(), files);
    } else if (entry.is_regular_file()) {
      files.push_back(entry.path());
    }
  }
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code none;
  return fs::equivalent(a, b, none) && !none;
}

// Paths of this process's descriptors, which the shell opens for /dev/stdin and <(COMMAND).
bool is_open_pipe(const fs::path& path) {
  if (!fs::is_fifo(path)) return false;
  const fs::path folder = path.parent_path();
  return path == "/dev/stdin" || folder == "/dev/fd" || folder == "/proc/self/fd";
}

const char* kind_of(fs::file_type type) {
  switch (type) {
    case fs::file_type::fifo:
      return "a named pipe";
    case fs::file_type::socket:
      return "a socket";
    case fs::file_type::block:
    case fs::file_type::character:
      return "a device";
    default:
      return "no regular file";
  }
}

void check_kind(const fs::path& path) {
  if (fs::is_regular_file(path) || is_open_pipe(path)) return;
  throw UserError::of(
      "input {} is {}; give files and folders, or text from another program as: PROGRAM | terrace data prepare "
      "/dev/stdin",
      path.string(), kind_of(fs::status(path).type()));
}

}  // namespace

std::vector<InputFile> find_input_files(const std::vector<std::string>& paths, FormatChoice format,
                                        const std::vector<fs::path>& excluded) {
  std::vector<InputFile> inputs;
  for (const std::string& path : paths) {
    if (!fs::exists(path)) throw UserError::of("input {} does not exist", path);
    std::vector<fs::path> files;
    if (fs::is_directory(path)) {
      add_folder(path, files);
      std::erase_if(files, [&](const fs::path& file) {
        return std::any_of(excluded.begin(), excluded.end(), [&](const fs::path& out) { return same_file(file, out); });
      });
      if (files.empty()) throw UserError::of("folder {} holds no files", path);
    } else {
      check_kind(path);
      files.emplace_back(path);
    }
    for (const fs::path& file : files) {
      inputs.push_back({file, format_of(file.filename(), format), fs::is_regular_file(file) ? fs::file_size(file) : 0});
    }
  }
  if (inputs.empty()) throw UserError("no input files; name at least one file or folder");
  return inputs;
}

}  // namespace terrace::data
