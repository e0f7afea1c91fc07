// Copies that go around the caches, for buffers that would not stay in them anyway.
#pragma once

#include <cstddef>

namespace terrace::comm {

// As memcpy, but the written lines are not read first and push nothing out of the caches, where the processor can do
// so.
void copy_past_caches(void* to, const void* from, size_t bytes);

}  // namespace terrace::comm
