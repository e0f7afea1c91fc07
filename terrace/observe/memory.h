// How much memory this process uses.
#pragma once

#include <cstdint>

namespace terrace::observe {

// Bytes resident in memory, now and at most so far. On systems without /proc both are the peak.
int64_t resident_bytes();
int64_t peak_resident_bytes();

// Bytes that this machine could still give without swapping; 0 where the system does not say.
int64_t available_bytes();

}  // namespace terrace::observe
