// Says where the source tree and its Python are; defined in one file, so that all other objects are the same in every
// clone.
#pragma once

#include <filesystem>
#include <string>

namespace terrace::tests {

std::filesystem::path source_dir();
std::string python();
// The packages of transformers 5, in front of which Python's own has version 4; tools/setup --test installs them.
std::filesystem::path transformers5();

}  // namespace terrace::tests
