// The whole program; cli/no_training.cpp replaces this folder in the planner build.
#include "cli/build_kind.h"

namespace terrace::cli {

const BuildKind& build_kind() {
  static constexpr BuildKind kind = {.about = "Trains large models on one machine or a supercomputer.",
                                     .summary = "train large models",
                                     .version_note = "",
                                     .missing_commands = {}};
  return kind;
}

}  // namespace terrace::cli
