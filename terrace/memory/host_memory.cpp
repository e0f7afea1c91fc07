// Implements the arenas and the torch allocator that takes memory from them.
#include "terrace/memory/host_memory.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <set>

#include "terrace/base/error.h"

namespace terrace::memory {
namespace {

constexpr size_t huge_page = size_t{2} << 20;
constexpr size_t least_arena = size_t{32} << 20;
// Memory of at least this size comes from arenas. Its addresses are multiples of the size, which distinguishes them
// from malloc's.
constexpr size_t granule = size_t{64} << 10;

size_t round_up(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

class Arenas {
 public:
  void* take(size_t bytes) {
    const size_t size = round_up(bytes, granule);
    const std::lock_guard lock(mutex_);
    auto found = free_.lower_bound({size, nullptr});
    if (found == free_.end()) found = add_arena(size);
    char* const place = found->second;
    const size_t whole = found->first;
    free_.erase(found);
    Region& region = regions_.at(place);
    region.used = true;
    if (whole > size) {
      region.size = size;
      regions_.emplace(place + size, Region{whole - size, false, false});
      free_.emplace(whole - size, place + size);
    }
    used_ += size;
    return place;
  }

  // False if the address is not one of an arena.
  bool give_back(void* at) {
    const std::lock_guard lock(mutex_);
    auto region = regions_.find(static_cast<char*>(at));
    if (region == regions_.end()) return false;
    TERRACE_CHECK(region->second.used, "memory of a tensor was freed twice");
    region->second.used = false;
    used_ -= region->second.size;
    if (const auto next = std::next(region); next != regions_.end() && joins(*next)) join(region, next);
    if (!region->second.first) {
      if (const auto before = std::prev(region); !before->second.used) {
        free_.erase({before->second.size, before->first});
        before->second.size += region->second.size;
        regions_.erase(region);
        region = before;
      }
    }
    free_.emplace(region->second.size, region->first);
    return true;
  }

  // The size of the region at an address; nothing if the address is not one of an arena.
  std::optional<int64_t> size_of(void* at) {
    const std::lock_guard lock(mutex_);
    const auto region = regions_.find(static_cast<char*>(at));
    return region == regions_.end() ? std::nullopt : std::optional(static_cast<int64_t>(region->second.size));
  }

  HostMemory figures() {
    const std::lock_guard lock(mutex_);
    return {static_cast<int64_t>(used_), static_cast<int64_t>(kept_)};
  }

 private:
  struct Region {
    size_t size;
    bool used;
    bool first;  // the first one of its arena, which must not be joined with the region before it
  };
  using Regions = std::map<char*, Region>;

  static bool joins(const Regions::value_type& next) { return !next.second.used && !next.second.first; }

  void join(Regions::iterator region, Regions::iterator next) {
    free_.erase({next->second.size, next->first});
    region->second.size += next->second.size;
    regions_.erase(next);
  }

  std::set<std::pair<size_t, char*>>::iterator add_arena(size_t bytes) {
    const size_t size = round_up(std::max(bytes, least_arena), huge_page);
    // The mapping is one huge page larger than needed, so that it contains an aligned range of this size.
    void* const mapped =
        mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    char* const begin = static_cast<char*>(mapped);
    char* const place = begin + (huge_page - reinterpret_cast<uintptr_t>(mapped) % huge_page) % huge_page;
    if (place > begin) munmap(begin, static_cast<size_t>(place - begin));
    if (char* const end = begin + huge_page; end > place) munmap(place + size, static_cast<size_t>(end - place));
    madvise(place, size, MADV_HUGEPAGE);  // a hint: a system without huge pages uses ordinary ones
    kept_ += size;
    regions_.emplace(place, Region{size, false, true});
    return free_.emplace(size, place).first;
  }

  std::mutex mutex_;
  Regions regions_;
  std::set<std::pair<size_t, char*>> free_;  // by size, then address, so that every run chooses the same best fit
  size_t used_ = 0, kept_ = 0;
};

// Never destroyed, since tensors with static lifetime may be freed after every other object.
Arenas& arenas() {
  static auto* const all = new Arenas;
  return *all;
}

int64_t bytes_at(void* at) {
  const std::optional<int64_t> own = arenas().size_of(at);
  return own ? *own : static_cast<int64_t>(malloc_usable_size(at));
}

// Reports to torch's memory profiler; memory from malloc counts with its usable size.
void report(void* at, bool taken) {
  if (at == nullptr || !c10::memoryProfilingEnabled()) return;
  const int64_t bytes = bytes_at(at);
  const HostMemory now = arenas().figures();
  c10::reportMemoryUsageToProfiler(at, taken ? bytes : -bytes, static_cast<size_t>(now.used_bytes),
                                   static_cast<size_t>(now.kept_bytes), c10::Device(c10::DeviceType::CPU));
}

void release(void* at) {
  if (at == nullptr) return;
  report(at, false);
  if (reinterpret_cast<uintptr_t>(at) % granule == 0 && arenas().give_back(at)) return;
  std::free(at);
}

class KeepingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* at = nullptr;
    if (bytes >= granule) {
      at = arenas().take(bytes);
    } else if (bytes > 0) {
      constexpr size_t cache_line = 64;
      if (posix_memalign(&at, cache_line, bytes) != 0) throw std::bad_alloc();
    }
    report(at, true);
    return {at, at, &release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, size_t count) const override { default_copy_data(to, from, count); }
};

}  // namespace

void keep_host_memory() {
  static const bool done = [] {
    static KeepingAllocator allocator;
    constexpr uint8_t before_torchs = 100;
    c10::SetCPUAllocator(&allocator, before_torchs);
    // Keeps the memory that libraries allocate, too; 32 MiB is the largest threshold that glibc allows.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 16 << 20);
    return true;
  }();
  static_cast<void>(done);
}

HostMemory host_memory() { return arenas().figures(); }

}  // namespace terrace::memory
