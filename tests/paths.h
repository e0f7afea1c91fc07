// Where the source tree and its Python are; defined in one file, so that all other objects are the same in every clone.
#pragma once

#include <filesystem>
#include <string>

namespace terrace::tests {

std::filesystem::path source_dir();
std::string python();

}  // namespace terrace::tests
