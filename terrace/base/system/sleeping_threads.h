// Prepares the kernel for a process of thousands of threads that sleep most of the time.
#pragma once

#include <cstdint>

namespace terrace {

// Linux from 6.16 on keeps a process' sleeping threads in a table whose slots are as few as the cores need, and looks
// through a slot's threads at each wake. This makes the table as large as `threads` ask for; it is never made smaller.
// Without effect on systems that have no such table.
void expect_sleeping_threads(int64_t threads);

}  // namespace terrace
