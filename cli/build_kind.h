// Says what this build of the program is: the whole program, or the planner alone, which has no torch.
#pragma once

#include <span>
#include <string_view>

namespace terrace::cli {

struct BuildKind {
  std::string_view about;         // what the program does, as one sentence
  std::string_view summary;       // the same in a few words, for the manual page
  std::string_view version_note;  // what --version prints after the version
  // Subcommands that only the whole program has; none in a build of it.
  std::span<const std::string_view> missing_commands;
};

const BuildKind& build_kind();

}  // namespace terrace::cli
