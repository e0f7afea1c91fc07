// Finds the cores that this process may use, which can be fewer than the machine has.
#pragma once

#include <bitset>
#include <cstdint>
#include <filesystem>
#include <string>

namespace terrace {

using CoreMask = std::bitset<1024>;

// The cores that the calling thread may run on, as set by taskset, a launcher or a container; empty where unknown.
CoreMask core_mask();

// The cores that its container or job allows, which an unbound thread could run on.
CoreMask core_mask_unbound();

// The cores nearest to the device with this bus address, such as "0000:c1:00.0"; empty where the kernel does not say.
// `system` is the folder that has sys/.
CoreMask cores_near(const std::string& bus_address, const std::filesystem::path& system = "/");

// Lets the calling thread, and threads that it makes later, run on these cores only. Returns false where the kernel
// refuses.
bool bind_to(const CoreMask& cores);

// The number of cores in the mask, at most the quota of the control groups rounded up and at least 1.
int64_t usable_cores();

}  // namespace terrace
