// A folder of this user alone on a file system that all users of a node share.
#pragma once

#include <filesystem>

namespace terrace::checkpoint {

// Makes the folder (mode 700), and those above it, or checks that it is one. `key` names the configuration's key of the
// folder that it lies in. Throws UserError where it belongs to another user, is a symbolic link, or can be written to
// by others, and std::system_error where it cannot be made.
void take_own_folder(const std::filesystem::path& folder, const char* key);

// Throws the UserError of take_own_folder() where the folder exists, and makes nothing.
void check_own_folder(const std::filesystem::path& folder, const char* key);

}  // namespace terrace::checkpoint
