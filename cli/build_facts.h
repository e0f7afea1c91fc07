// Says what this build of the program was made of and with; cmake/build_facts.cmake writes the functions.
#pragma once

#include <string_view>

namespace terrace::cli {

// The commit of the sources in 40 hexadecimal digits, followed by " with changes" where files differ from it; "unknown"
// where the sources come neither from a repository nor from the archive of tools/bundle.
std::string_view commit();

// Lines "NAME: TEXT" without a last line end: compiler, torch, MPI, CUDA and HIP ("none" without) and where the
// libraries come from.
std::string_view build_facts();

}  // namespace terrace::cli
