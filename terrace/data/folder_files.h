// Finds the files of folders, in an order that depends only on their names.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace terrace::data {

// Returns whether the path leads to one of the files, under whatever name.
bool is_one_of(const std::filesystem::path& path, const std::vector<std::filesystem::path>& files);

// Returns the regular files below a folder, sorted by name in each folder. Names that start with a dot are left out,
// and links to folders are not entered. `enter`, if any, is called with each folder before the folder is read, and may
// throw; a folder for which it returns false is listed as a file is.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::function<bool(const std::filesystem::path&)>& enter = {});

// A kind of file that is known by its name.
struct NamedKind {
  std::string words;                                         // "file of structures (.xyz, .cif)"
  bool (*is_named)(const std::filesystem::path&) = nullptr;  // which files of folders are taken
  bool (*is_whole)(const std::filesystem::path&) = nullptr;  // which folders count as such a file; null: none
  void (*check_input)(const std::filesystem::path& file) =
      nullptr;  // called for a file that is an input itself; may throw; null: none
};

// Returns the inputs that are files, and the files of the kind below those that are folders. Files of folders that are
// `excluded` are left out. Throws UserError for an input that does not exist, that is neither file nor folder or is
// excluded, for a file that is given twice, and where there is none.
std::vector<std::filesystem::path> find_named_files(const std::vector<std::string>& inputs,
                                                    const std::vector<std::filesystem::path>& excluded,
                                                    const NamedKind& kind);

}  // namespace terrace::data
