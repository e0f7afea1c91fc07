// Looks, before anything is computed, whether a file can be written that a command names.
#pragma once

#include <filesystem>
#include <string>

namespace terrace::cli {

// Throws UserError where the folder of a file that is to be written does not exist. `name` begins the message.
void check_folder_of(const std::filesystem::path& file, const std::string& name);

// Throws UserError where the file that an option names has no folder, is a folder itself, of which `example` would be a
// file, or exists and is not to be replaced. "" is no file.
void check_new_file(const std::string& path, const std::string& option, const std::string& example, bool overwrite);

}  // namespace terrace::cli
