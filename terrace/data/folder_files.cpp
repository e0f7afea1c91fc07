// Searches folders recursively.
#include "terrace/data/folder_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

void add_files_below(const fs::path& folder, const std::function<bool(const fs::path&)>& enter,
                     std::vector<fs::path>& files) {
  if (enter && !enter(folder)) {
    files.push_back(folder);
    return;
  }
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with('.')) entries.push_back(entry.path());
  }
  std::ranges::sort(entries, {}, &fs::path::native);
  for (const fs::path& path : entries) {
    // A link to a folder may lead back up, so only real folders are entered.
    if (fs::is_directory(path) && !fs::is_symlink(path)) {
      add_files_below(path, enter, files);
    } else if (fs::is_regular_file(path)) {
      files.push_back(path);
    }
  }
}

}  // namespace

bool is_one_of(const fs::path& path, const std::vector<fs::path>& files) {
  return std::ranges::any_of(files, [&](const fs::path& file) {
    std::error_code none;
    return fs::equivalent(path, file, none) && !none;
  });
}

std::vector<fs::path> files_below(const fs::path& folder, const std::function<bool(const fs::path&)>& enter) {
  std::vector<fs::path> files;
  add_files_below(folder, enter, files);
  return files;
}

std::vector<fs::path> find_named_files(const std::vector<std::string>& inputs, const std::vector<fs::path>& excluded,
                                       const NamedKind& kind) {
  std::vector<fs::path> files;
  for (const std::string& input : inputs) {
    const fs::path path(input);
    if (!fs::exists(path)) throw UserError::of("{} does not exist", input);
    if (fs::is_directory(path)) {
      const auto is_whole = [&](const fs::path& folder) { return kind.is_whole != nullptr && kind.is_whole(folder); };
      for (fs::path& file : files_below(path, [&](const fs::path& folder) { return !is_whole(folder); })) {
        const bool is_taken = fs::is_directory(file) || kind.is_named(file);
        if (is_taken && !is_one_of(file, excluded)) files.push_back(std::move(file));
      }
    } else if (!fs::is_regular_file(path)) {
      throw UserError::of("{} is neither a file nor a folder", input);
    } else if (is_one_of(path, excluded)) {
      throw UserError::of("{} is an input and the --output; choose another --output", input);
    } else {
      if (kind.check_input != nullptr) kind.check_input(path);
      files.push_back(path);
    }
  }
  if (files.empty()) throw UserError::of("no {} in {}", kind.words, fmt::join(inputs, ", "));
  std::set<fs::path> seen;
  for (const fs::path& file : files) {
    if (!seen.insert(fs::canonical(file)).second) throw UserError::of("{} is given twice", file.string());
  }
  return files;
}

}  // namespace terrace::data
