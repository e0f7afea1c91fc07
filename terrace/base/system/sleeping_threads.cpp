// Sets the number of slots of the process' own hash table of futexes.
#include "terrace/base/system/sleeping_threads.h"

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <bit>

namespace terrace {

#ifdef __linux__
namespace {

// linux/prctl.h has these from 6.16 on.
constexpr int futex_hash = 78, set_slots = 1, get_slots = 2;
constexpr int64_t few_threads = 64;  // for which the kernel's own choice does
constexpr int64_t most_slots = 1 << 16;

}  // namespace

void expect_sleeping_threads(int64_t threads) {
  if (threads <= few_threads) return;
  const int now = prctl(futex_hash, get_slots, 0, 0, 0);  // 0: those of all processes together
  const auto slots = std::bit_ceil(static_cast<uint64_t>(std::min(threads, most_slots)));
  if (now < 0 || static_cast<uint64_t>(now) >= slots) return;
  prctl(futex_hash, set_slots, slots, 0, 0);
}
#else
void expect_sleeping_threads(int64_t) {}
#endif

}  // namespace terrace
