// A small file that every process of a launch needs, read by the first one alone.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "terrace/comm/mpi/mpi.h"

namespace terrace::cli {

// The text of the file as the first process has read it. No value on a process that sees another file there, by its
// size, its time of change or its number, or none, and where the first one could not read it: such a process reads the
// file itself. All processes of the launch call it, each with its own path; "" is no file.
std::optional<std::string> text_of_first(const std::shared_ptr<comm::MpiLibrary>& library,
                                         const std::filesystem::path& path);

}  // namespace terrace::cli
