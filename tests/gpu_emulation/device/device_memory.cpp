// Maps one file of memory twice: without access for the host, and with access for the code that plays the device.
#include "tests/gpu_emulation/device/device_memory.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "tests/gpu_emulation/device/activity.h"
#include "tests/gpu_emulation/memory_access.h"

namespace gpu_emulation {
namespace {

// Blocks are aligned as those of cudaMalloc.
constexpr size_t alignment_bytes = 512;
constexpr size_t page_bytes = 4096;
// Blocks of this size are not filled, and give their pages back when they are freed.
constexpr size_t large_bytes = size_t{8} << 20;

char* device_begin = nullptr;  // null: nothing is mapped yet, so no address is the device's
char* reachable_begin = nullptr;

[[noreturn]] void fail(const char* call) {
  std::perror(call);
  std::abort();
}

struct sigaction former_action = {};

// Reports an access of the host to the device's memory. Only functions that may be called in a signal handler are used;
// backtrace() was called before, so that it is loaded.
void report_access(int signal, siginfo_t* info, void* context) {
  if (!is_on_device(info->si_addr)) {
    if ((former_action.sa_flags & SA_SIGINFO) != 0) return former_action.sa_sigaction(signal, info, context);
    sigaction(signal, &former_action, nullptr);
    return;  // the access is repeated and ends the process
  }
  constexpr char message[] = "the host accesses memory of the GPU, in\n";
  static_cast<void>(!write(STDERR_FILENO, message, sizeof message - 1));
  void* calls[64];
  backtrace_symbols_fd(calls, backtrace(calls, 64), STDERR_FILENO);
  std::abort();
}

class Arena {
 public:
  Arena() {
    const int file = memfd_create("memory of an emulated GPU", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, device_bytes) != 0) fail("memfd_create");
    device_begin = map(file, PROT_NONE);
    reachable_begin = map(file, PROT_READ | PROT_WRITE);
    close(file);
    free_[0] = device_bytes;
    void* call = nullptr;
    backtrace(&call, 1);
    struct sigaction action = {};
    action.sa_sigaction = report_access;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &former_action);
  }

  // The smallest free block that is large enough.
  void* allocate(size_t bytes) {
    bytes = std::max((bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes, alignment_bytes);
    const std::lock_guard lock(mutex_);
    auto best = free_.end();
    for (auto block = free_.begin(); block != free_.end(); ++block) {
      if (block->second >= bytes && (best == free_.end() || block->second < best->second)) best = block;
    }
    if (best == free_.end()) throw std::bad_alloc();
    const auto [begin, size] = *best;
    free_.erase(best);
    if (size > bytes) free_[begin + bytes] = size - bytes;
    taken_[begin] = bytes;
    use_.bytes += bytes;
    use_.peak_bytes = std::max(use_.peak_bytes, use_.bytes);
    ++use_.allocations;
    if (bytes < large_bytes) std::memset(reachable_begin + begin, 0xFF, bytes);
    return device_begin + begin;
  }

  void release(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = taken_.find(static_cast<size_t>(static_cast<char*>(memory) - device_begin));
    if (found == taken_.end()) {
      std::fprintf(stderr, "a block is freed that is no block of the GPU\n");
      std::abort();
    }
    auto [begin, size] = *found;
    taken_.erase(found);
    use_.bytes -= size;
    ++use_.releases;
    if (size >= large_bytes) static_cast<void>(madvise(reachable_begin + begin, size, MADV_REMOVE));
    const auto next = free_.find(begin + size);
    if (next != free_.end()) {
      size += next->second;
      free_.erase(next);
    }
    const auto after = free_.lower_bound(begin);
    if (after != free_.begin() && std::prev(after)->first + std::prev(after)->second == begin) {
      std::prev(after)->second += size;
    } else {
      free_[begin] = size;
    }
  }

  DeviceMemoryUse use() {
    const std::lock_guard lock(mutex_);
    return use_;
  }

  // The bytes of the part that has blocks, in whole pages.
  size_t used_extent() {
    const std::lock_guard lock(mutex_);
    const size_t end = taken_.empty() ? 0 : taken_.rbegin()->first + taken_.rbegin()->second;
    return (end + page_bytes - 1) / page_bytes * page_bytes;
  }

  static Arena& instance() {
    static auto* const one = new Arena;  // tensors may be freed late in the process
    return *one;
  }

 private:
  static char* map(int file, int protection) {
    void* const memory = mmap(nullptr, device_bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED) fail("mmap");
    return static_cast<char*>(memory);
  }

  std::mutex mutex_;
  std::map<size_t, size_t> free_, taken_;  // bytes of blocks, by where they begin
  DeviceMemoryUse use_;
};

std::mutex kernels;       // one runs at a time
size_t opened_bytes = 0;  // of the device's memory, which the running kernel can reach

}  // namespace

void* allocate_on_device(size_t bytes) { return Arena::instance().allocate(bytes); }
void release_on_device(void* memory) { Arena::instance().release(memory); }
DeviceMemoryUse device_memory_use() { return Arena::instance().use(); }

bool is_on_device(const void* memory) {
  const auto* const address = static_cast<const char*>(memory);
  return device_begin != nullptr && address >= device_begin && address < device_begin + device_bytes;
}

const void* reachable(const void* memory) {
  if (!is_on_device(memory)) return memory;
  return reachable_begin + (static_cast<const char*>(memory) - device_begin);
}

void* reachable(void* memory) { return const_cast<void*>(reachable(static_cast<const void*>(memory))); }

MemoryAccess::MemoryAccess() {
  kernels.lock();
  ++activity().kernels;
  opened_bytes = Arena::instance().used_extent();
  if (opened_bytes > 0 && mprotect(device_begin, opened_bytes, PROT_READ | PROT_WRITE) != 0) fail("mprotect");
}

MemoryAccess::~MemoryAccess() {
  if (opened_bytes > 0 && mprotect(device_begin, opened_bytes, PROT_NONE) != 0) fail("mprotect");
  kernels.unlock();
}

}  // namespace gpu_emulation
