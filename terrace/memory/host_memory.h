// Keeps and reuses the memory of CPU tensors. Fresh pages are slow: the system clears and maps each page at its first
// access, and a step that allocates its activations again would pay this cost in every step.
#pragma once

#include <cstdint>

namespace terrace::memory {

// Replaces torch's CPU allocator for the whole process. Large tensors then come from arenas of huge pages, which are
// never returned to the system: an allocation takes the best fit among the free regions, and a freed region is joined
// with its free neighbours. Small tensors come from malloc, which is configured to keep its memory too. Tensors that
// were allocated before stay where they are. Further calls have no effect.
void keep_host_memory();

struct HostMemory {
  int64_t used_bytes = 0;  // held by tensors
  int64_t kept_bytes = 0;  // taken from the system
};

// The figures of the arenas; zeros before keep_host_memory().
HostMemory host_memory();

}  // namespace terrace::memory
