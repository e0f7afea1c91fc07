// Counts the requests in a global, since a signal handler can reach nothing else.
#include "terrace/train/report_request.h"

#include <csignal>

namespace terrace::train {
namespace {

std::atomic<int> requests = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void on_report_signal(int) { ++requests; }

}  // namespace

void report_on_signal() { std::signal(SIGUSR2, on_report_signal); }

const std::atomic<int>& report_requests() { return requests; }

}  // namespace terrace::train
