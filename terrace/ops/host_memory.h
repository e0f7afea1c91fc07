// Memory of CPU tensors that is kept and reused. The system gives fresh pages slowly: every page is cleared and entered
// into the tables at its first touch, and a step that frees and takes its activations anew pays that every time.
#pragma once

#include <cstdint>

namespace terrace::ops {

// From now on large CPU tensors come from segments in huge pages that are never given back: the free piece that fits
// best, joined with its free neighbours again when it is freed. Small ones come from malloc, which is told to keep its
// memory too. For the whole program and all threads; calling it again changes nothing. Tensors taken before stay where
// they are.
void keep_host_memory();

struct HostMemory {
  int64_t used_bytes = 0;  // in tensors
  int64_t kept_bytes = 0;  // taken from the system
};

// Of the segments; zeros before keep_host_memory().
HostMemory host_memory();

}  // namespace terrace::ops
