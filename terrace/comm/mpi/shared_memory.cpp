// Lays out the rings of a group in shared memory, and publishes and releases slots by counters.
#include "terrace/comm/mpi/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

namespace terrace::comm {
namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "other processes know nothing of this one's locks");

// The memory of a ring: the counter of each reader, then the slots. A ring for all is read by every other member, a
// ring for one member by that member only.
size_t ring_bytes(int64_t members, RingSize size) {
  return static_cast<size_t>(members) * sizeof(SlotsRead) + static_cast<size_t>(size.slots) * size.stride();
}

SlotHeader& header_of(std::byte* slots, uint64_t number, RingSize size) {
  const uint64_t place = number % static_cast<uint64_t>(size.slots);
  return *reinterpret_cast<SlotHeader*>(slots + place * size.stride());
}

std::byte* bytes_of(SlotHeader& header) { return reinterpret_cast<std::byte*>(&header + 1); }

}  // namespace

std::byte* RingWriter::free_slot() {
  const auto slots = static_cast<uint64_t>(size_.slots);
  if (filled_ - read_by_all_ >= slots) {
    uint64_t least = filled_;
    for (const SlotsRead* reader : readers_) least = std::min(least, reader->slots.load(std::memory_order_acquire));
    read_by_all_ = least;
    if (filled_ - read_by_all_ >= slots) return nullptr;
  }
  return bytes_of(header_of(slots_, filled_, size_));
}

void RingWriter::fill(const CallSignature& signature) {
  SlotHeader& header = header_of(slots_, filled_, size_);
  header.signature = signature;
  header.filled.store(++filled_, std::memory_order_release);
}

const std::byte* RingReader::filled_slot() const {
  SlotHeader& header = header_of(slots_, read_, size_);
  return header.filled.load(std::memory_order_acquire) == read_ + 1 ? bytes_of(header) : nullptr;
}

const CallSignature& RingReader::signature() const { return header_of(slots_, read_, size_).signature; }

void RingReader::release() { slots_read_->slots.store(++read_, std::memory_order_release); }

SharedMemory::SharedMemory(size_t bytes) : bytes_(bytes), descriptor_(memfd_create("terrace", MFD_CLOEXEC)) {
  if (descriptor_ >= 0 && ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0) map();
}

SharedMemory::SharedMemory(int64_t process_id, int descriptor, size_t bytes)
    : bytes_(bytes),
      descriptor_(open(("/proc/" + std::to_string(process_id) + "/fd/" + std::to_string(descriptor)).c_str(),
                       O_RDWR | O_CLOEXEC)) {
  if (descriptor_ >= 0) map();
}

SharedMemory::~SharedMemory() {
  if (is_mapped()) munmap(data_, bytes_);
  close_descriptor();
}

void SharedMemory::map() {
  void* const address = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (address != MAP_FAILED) data_ = static_cast<std::byte*>(address);
}

void SharedMemory::close_descriptor() {
  if (const int descriptor = std::exchange(descriptor_, -1); descriptor >= 0) close(descriptor);
}

SharedRings::SharedRings(std::unique_ptr<SharedMemory> memory, int64_t members, int64_t member, RingSize size)
    : memory_(std::move(memory)), member_(member), size_(size) {
  const size_t bytes = ring_bytes(members, size);
  const auto readers_of = [&](int64_t from, int64_t to) {
    return reinterpret_cast<SlotsRead*>(memory_->data() + static_cast<size_t>(from * members + to) * bytes);
  };
  const auto slots_of = [&](int64_t from, int64_t to) {
    return reinterpret_cast<std::byte*>(readers_of(from, to) + members);
  };
  for (int64_t other = 0; other < members; ++other) {
    std::vector<const SlotsRead*> readers;
    for (int64_t reader = 0; reader < members; ++reader) {
      const bool reads = other == member ? reader != member : reader == other;
      if (reads) readers.push_back(readers_of(member, other) + reader);
    }
    to_.emplace_back(slots_of(member, other), std::move(readers), size);
    from_all_.emplace_back(slots_of(other, other), readers_of(other, other) + member, size);
    from_.emplace_back(slots_of(other, member), readers_of(other, member) + member, size);
  }
}

size_t SharedRings::bytes_needed(int64_t members, RingSize size) {
  return static_cast<size_t>(members * members) * ring_bytes(members, size);
}

}  // namespace terrace::comm
