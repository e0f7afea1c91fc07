// Where the boxes of a group lie in its memory, and the counters by which slots change hands.
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

// A box: how far each member has read, then the slots. The box for all has a reader in every other member, that for
// one member only there.
size_t box_bytes(int64_t members, BoxSize size) {
  return static_cast<size_t>(members) * sizeof(SlotsLeft) + static_cast<size_t>(size.slots) * size.stride();
}

SlotHead& head_of(std::byte* slots, uint64_t number, BoxSize size) {
  const uint64_t place = number % static_cast<uint64_t>(size.slots);
  return *reinterpret_cast<SlotHead*>(slots + place * size.stride());
}

std::byte* bytes_behind(SlotHead& head) { return reinterpret_cast<std::byte*>(&head + 1); }

}  // namespace

std::byte* BoxWriter::room() {
  const auto slots = static_cast<uint64_t>(size_.slots);
  if (filled_ - all_left_ >= slots) {
    uint64_t least = filled_;
    for (const SlotsLeft* reader : readers_) least = std::min(least, reader->slots.load(std::memory_order_acquire));
    all_left_ = least;
    if (filled_ - all_left_ >= slots) return nullptr;
  }
  return bytes_behind(head_of(slots_, filled_, size_));
}

void BoxWriter::fill(const SlotMark& mark) {
  SlotHead& head = head_of(slots_, filled_, size_);
  head.mark = mark;
  head.filled.store(++filled_, std::memory_order_release);
}

const std::byte* BoxReader::slot() const {
  SlotHead& head = head_of(slots_, left_, size_);
  return head.filled.load(std::memory_order_acquire) == left_ + 1 ? bytes_behind(head) : nullptr;
}

const SlotMark& BoxReader::mark() const { return head_of(slots_, left_, size_).mark; }

void BoxReader::leave() { told_->slots.store(++left_, std::memory_order_release); }

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

SharedBoxes::SharedBoxes(std::unique_ptr<SharedMemory> memory, int64_t members, int64_t member, BoxSize size)
    : memory_(std::move(memory)), member_(member), size_(size) {
  const size_t bytes = box_bytes(members, size);
  const auto readers_of = [&](int64_t from, int64_t to) {
    return reinterpret_cast<SlotsLeft*>(memory_->data() + static_cast<size_t>(from * members + to) * bytes);
  };
  const auto slots_of = [&](int64_t from, int64_t to) {
    return reinterpret_cast<std::byte*>(readers_of(from, to) + members);
  };
  for (int64_t other = 0; other < members; ++other) {
    std::vector<const SlotsLeft*> readers;
    for (int64_t reader = 0; reader < members; ++reader) {
      const bool reads = other == member ? reader != member : reader == other;
      if (reads) readers.push_back(readers_of(member, other) + reader);
    }
    to_.emplace_back(slots_of(member, other), std::move(readers), size);
    from_all_.emplace_back(slots_of(other, other), readers_of(other, other) + member, size);
    from_.emplace_back(slots_of(other, member), readers_of(other, member) + member, size);
  }
}

size_t SharedBoxes::bytes_needed(int64_t members, BoxSize size) {
  return static_cast<size_t>(members * members) * box_bytes(members, size);
}

}  // namespace terrace::comm
