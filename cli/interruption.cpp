// Sets a flag at the first signal.
#include "cli/interruption.h"

#include <csignal>

namespace terrace::cli {
namespace {

std::atomic<bool> was_interrupted = false;  // a signal handler can reach only globals

}  // namespace

void stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { was_interrupted = true; };
  action.sa_flags = SA_RESETHAND;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  // nohup ignores it, so that the command goes on without its terminal.
  struct sigaction before {};
  ::sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

const std::atomic<bool>& interrupted() { return was_interrupted; }

}  // namespace terrace::cli
