// Copies that bypass the caches, for buffers that are too large to stay in them.
#pragma once

#include <cstddef>

namespace terrace::comm {

// Does what memcpy does. Where the processor has non-temporal stores, the written cache lines are not read first and
// evict nothing from the caches.
void copy_past_caches(void* to, const void* from, size_t bytes);

}  // namespace terrace::comm
