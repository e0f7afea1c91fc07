// Says what the exit codes mean, for help and the manual page.
#pragma once

#include <array>
#include <string_view>

#include "terrace/base/error.h"

namespace terrace::cli {

struct ExitMeaning {
  ExitCode code;
  std::string_view meaning;
};

inline constexpr std::array exit_meanings = {
    ExitMeaning{ExitCode::done, "done"},
    ExitMeaning{ExitCode::bad_input, "bad configuration or arguments"},
    ExitMeaning{ExitCode::infeasible, "not feasible on that machine"},
    ExitMeaning{ExitCode::stopped, "stopped on request with a checkpoint written"},
    ExitMeaning{ExitCode::peer_failed, "a peer or the machine failed"},
    ExitMeaning{ExitCode::failure, "anything else"},
};

}  // namespace terrace::cli
