// Finds the cores that this process may use, which can be fewer than the machine has.
#pragma once

#include <bitset>
#include <cstdint>

namespace terrace {

using CoreMask = std::bitset<1024>;

// The cores that the calling thread may run on, as set by taskset, a launcher or a container; empty where unknown.
CoreMask core_mask();

// The cores that its container or job allows, which an unbound thread could run on.
CoreMask core_mask_unbound();

// The CPU time limit of the process's control groups (version 2, or version 1 at its root), in cores; 0 without a
// limit.
double core_quota();

// The number of cores in the mask, at most the quota rounded up and at least 1.
int64_t usable_cores();

}  // namespace terrace
