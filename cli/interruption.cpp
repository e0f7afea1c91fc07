// Sets the flag of base/system/stop_request.h at the first signal.
#include "cli/interruption.h"

#include <csignal>

#include "terrace/base/system/start_watch.h"
#include "terrace/base/system/stop_request.h"

namespace terrace::cli {

void stop_on_signals(std::chrono::milliseconds grace) {
  struct sigaction action {};
  action.sa_handler = [](int) { request_stop(); };
  action.sa_flags = SA_RESETHAND;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  // nohup ignores it, so that the command goes on without its terminal.
  struct sigaction before {};
  ::sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
  begin_start(grace);
}

const std::atomic<bool>& interrupted() { return stop_flag(); }

}  // namespace terrace::cli
