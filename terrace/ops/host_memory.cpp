// The segments, and the allocator that torch asks.
#include "terrace/ops/host_memory.h"

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

namespace terrace::ops {
namespace {

constexpr size_t huge_page = size_t{2} << 20;
constexpr size_t least_segment = size_t{32} << 20;
// Pieces from this size on come from segments. Their places are multiples of it, which tells them from malloc's.
constexpr size_t granule = size_t{64} << 10;

size_t round_up(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

class Segments {
 public:
  void* take(size_t bytes) {
    const size_t size = round_up(bytes, granule);
    const std::lock_guard lock(mutex_);
    auto found = free_.lower_bound({size, nullptr});
    if (found == free_.end()) found = add_segment(size);
    char* const place = found->second;
    const size_t whole = found->first;
    free_.erase(found);
    Piece& piece = pieces_.at(place);
    piece.used = true;
    if (whole > size) {
      piece.size = size;
      pieces_.emplace(place + size, Piece{whole - size, false, false});
      free_.emplace(whole - size, place + size);
    }
    used_ += size;
    return place;
  }

  // False where the place is not one of ours.
  bool give_back(void* at) {
    const std::lock_guard lock(mutex_);
    auto piece = pieces_.find(static_cast<char*>(at));
    if (piece == pieces_.end()) return false;
    TERRACE_CHECK(piece->second.used, "a piece of memory was freed twice");
    piece->second.used = false;
    used_ -= piece->second.size;
    if (const auto next = std::next(piece); next != pieces_.end() && joins(*next)) join(piece, next);
    if (!piece->second.first) {
      if (const auto before = std::prev(piece); !before->second.used) {
        free_.erase({before->second.size, before->first});
        before->second.size += piece->second.size;
        pieces_.erase(piece);
        piece = before;
      }
    }
    free_.emplace(piece->second.size, piece->first);
    return true;
  }

  // Nothing where the place is not one of ours.
  std::optional<int64_t> size_of(void* at) {
    const std::lock_guard lock(mutex_);
    const auto piece = pieces_.find(static_cast<char*>(at));
    return piece == pieces_.end() ? std::nullopt : std::optional(static_cast<int64_t>(piece->second.size));
  }

  HostMemory figures() {
    const std::lock_guard lock(mutex_);
    return {static_cast<int64_t>(used_), static_cast<int64_t>(kept_)};
  }

 private:
  struct Piece {
    size_t size;
    bool used;
    bool first;  // of its segment: what lies before belongs to another
  };
  using Pieces = std::map<char*, Piece>;

  static bool joins(const Pieces::value_type& next) { return !next.second.used && !next.second.first; }

  void join(Pieces::iterator piece, Pieces::iterator next) {
    free_.erase({next->second.size, next->first});
    piece->second.size += next->second.size;
    pieces_.erase(next);
  }

  std::set<std::pair<size_t, char*>>::iterator add_segment(size_t bytes) {
    const size_t size = round_up(std::max(bytes, least_segment), huge_page);
    // One huge page more than needed, so that there is an aligned place in it.
    void* const mapped =
        mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    char* const begin = static_cast<char*>(mapped);
    char* const place = begin + (huge_page - reinterpret_cast<uintptr_t>(mapped) % huge_page) % huge_page;
    if (place > begin) munmap(begin, static_cast<size_t>(place - begin));
    if (char* const end = begin + huge_page; end > place) munmap(place + size, static_cast<size_t>(end - place));
    madvise(place, size, MADV_HUGEPAGE);  // where the system has none, ordinary pages do
    kept_ += size;
    pieces_.emplace(place, Piece{size, false, true});
    return free_.emplace(size, place).first;
  }

  std::mutex mutex_;
  Pieces pieces_;
  std::set<std::pair<size_t, char*>> free_;  // by size, then place: the best fit, and the same one in every run
  size_t used_ = 0, kept_ = 0;
};

// Never destroyed: tensors of static lifetime may outlive everything else.
Segments& segments() {
  static auto* const all = new Segments;
  return *all;
}

int64_t bytes_at(void* at) {
  const std::optional<int64_t> own = segments().size_of(at);
  return own ? *own : static_cast<int64_t>(malloc_usable_size(at));
}

// Tells whoever meters memory; what malloc gives counts with the size that malloc gives it.
void report(void* at, bool taken) {
  if (at == nullptr || !c10::memoryProfilingEnabled()) return;
  const int64_t bytes = bytes_at(at);
  const HostMemory now = segments().figures();
  c10::reportMemoryUsageToProfiler(at, taken ? bytes : -bytes, static_cast<size_t>(now.used_bytes),
                                   static_cast<size_t>(now.kept_bytes), c10::Device(c10::DeviceType::CPU));
}

void release(void* at) {
  if (at == nullptr) return;
  report(at, false);
  if (reinterpret_cast<uintptr_t>(at) % granule == 0 && segments().give_back(at)) return;
  std::free(at);
}

class KeepingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* at = nullptr;
    if (bytes >= granule) {
      at = segments().take(bytes);
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
    // What libraries take by themselves; 32 MiB is the most that glibc allows.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 16 << 20);
    return true;
  }();
  static_cast<void>(done);
}

HostMemory host_memory() { return segments().figures(); }

}  // namespace terrace::ops
