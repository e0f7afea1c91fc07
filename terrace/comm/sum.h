// Sums over the members of a group, element by element, for backends that see all buffers.
#pragma once

#include <cstdint>
#include <span>

#include "terrace/comm/call.h"

namespace terrace::comm {

// Adds the elements [begin, begin + count) of all buffers of `from` in their order, and writes the sums to the same
// elements of each buffer of `to`, which may be among `from`. 16-bit types are added in fp32 and rounded once; integers
// wrap around.
void sum_members(Type type, std::span<const void* const> from, std::span<void* const> to, int64_t begin, int64_t count);

}  // namespace terrace::comm
