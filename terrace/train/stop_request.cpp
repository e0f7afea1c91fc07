// Sets the flag of base/system/stop_request.h at a signal.
#include "terrace/train/stop_request.h"

#include <csignal>

#include "terrace/base/system/start_watch.h"
#include "terrace/base/system/stop_request.h"

namespace terrace::train {
namespace {

void on_stop_signal(int) {
  terrace::request_stop();
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void stop_on_signals() {
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, on_stop_signal);
  // nohup ignores it, so that the run goes on without its terminal.
  if (std::signal(SIGHUP, on_stop_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  begin_start();
}

void request_stop() { terrace::request_stop(); }
bool stop_requested() { return terrace::stop_requested(); }
void clear_stop_request() { terrace::clear_stop_request(); }

}  // namespace terrace::train
