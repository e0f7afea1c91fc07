// Keeps the request in a global flag, since a signal handler can reach nothing else.
#include "terrace/train/stop_request.h"

#include <atomic>
#include <csignal>

namespace terrace::train {
namespace {

std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_stop_signal(int) {
  requested = true;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void stop_on_signals() {
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, on_stop_signal);
  // nohup ignores it, so that the run goes on without its terminal.
  if (std::signal(SIGHUP, on_stop_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void request_stop() { requested = true; }
bool stop_requested() { return requested; }
void clear_stop_request() { requested = false; }

}  // namespace terrace::train
