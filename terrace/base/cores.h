// Cores that this process may use, which can be fewer than the machine has.
#pragma once

#include <bitset>
#include <cstdint>

namespace terrace {

using CoreMask = std::bitset<1024>;

// That the calling thread may run on, as taskset, a launcher or a container has said; empty where nobody knows.
CoreMask core_mask();

// That it could run on if nobody had bound it: those that its container or job gives it.
CoreMask core_mask_unbound();

// Cores' worth of time that the process's control groups (version 2, or 1 at its root) let it have; 0 without a limit.
double core_quota();

// At least 1: those of the mask, and no more than the quota rounded up.
int64_t usable_cores();

}  // namespace terrace
