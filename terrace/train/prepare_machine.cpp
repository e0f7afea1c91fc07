// Sets the number of torch's threads, ends idle ones, and lets the allocator keep freed memory.
#include "terrace/train/prepare_machine.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include "terrace/memory/host_memory.h"

namespace terrace::train {

void prepare_machine(int64_t threads) {
  at::set_num_threads(static_cast<int>(threads));
  memory::keep_host_memory();
}

void end_idle_threads() { omp_pause_resource_all(omp_pause_soft); }

}  // namespace terrace::train
