// Reads how much memory this process uses.
#pragma once

#include <cstdint>

namespace terrace::observe {

// The resident bytes now, and their peak so far. On systems without /proc both are the peak.
int64_t resident_bytes();
int64_t peak_resident_bytes();

// The bytes that this process can still take without swapping: those that the machine has left, or fewer where its
// control groups have a limit; 0 where that is unknown.
int64_t available_bytes();

}  // namespace terrace::observe
