// Waits for the end of its input between signs.
#include "terrace/supervise/keeper.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "terrace/base/files/memory_folder.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/system/stop_request.h"
#include "terrace/base/terminal/log.h"

namespace terrace::supervise {
namespace {

// Returns whether input has ended after at most the time between two signs; what is in it does not matter.
bool input_ends() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (::poll(&input, 1, static_cast<int>(1000 * seconds_between_signs)) <= 0) return false;
  std::array<char, 64> ignored{};
  return ::read(STDIN_FILENO, ignored.data(), ignored.size()) <= 0;
}

}  // namespace

void keep_node(const std::filesystem::path& memory, const std::filesystem::path& run_folder) {
  std::signal(SIGPIPE, SIG_IGN);
  constexpr char sign[] = ".\n";
  while (::write(STDOUT_FILENO, sign, sizeof sign - 1) > 0 && !input_ends() && !stop_requested()) {
  }
  try {
    remove_memory_of_host(memory, run_folder, host_name());
  } catch (const std::exception& error) {
    log_warning("{}: {}", host_name(), error.what());
  }
}

}  // namespace terrace::supervise
