// Keeps the flag.
#include "terrace/base/system/stop_request.h"

namespace terrace {
namespace {

std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace

void request_stop() { requested = true; }
bool stop_requested() { return requested; }
void clear_stop_request() { requested = false; }
const std::atomic<bool>& stop_flag() { return requested; }

}  // namespace terrace
