// Slot rings in memory that the processes of one machine share; the members of a group exchange the data of their calls
// through them. Each member writes one ring that all others read, and one ring for each other member. A slot ring is a
// circular buffer: its writer fills the slots in order, its readers read them in the same order, and nothing is locked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "terrace/comm/call.h"

namespace terrace::comm {

// The arguments that must agree on both sides of a call.
struct CallSignature {
  Kind kind = Kind::barrier;
  Type type = Type::uint8;
  int64_t count = 0;
  int64_t peer = -1;

  bool operator==(const CallSignature&) const = default;
};

// Precedes the bytes of a slot.
struct alignas(64) SlotHeader {
  std::atomic<uint64_t> filled = 0;  // the number of slots filled so far, this one included
  CallSignature signature;
};

// The number of slots that a reader has read, on its own cache line.
struct alignas(64) SlotsRead {
  std::atomic<uint64_t> slots = 0;
};

struct RingSize {
  static constexpr int64_t alignment = 64;  // a cache line

  int64_t slots = 0;
  int64_t slot_bytes = 0;  // a multiple of the alignment

  size_t stride() const { return sizeof(SlotHeader) + static_cast<size_t>(slot_bytes); }
};

// First-in, first-out order of the operations that use the same ring.
class FifoOrder {
 public:
  uint64_t join() { return joined_++; }
  bool is_first(uint64_t position) const { return position == finished_; }
  void leave() { ++finished_; }

 private:
  uint64_t joined_ = 0, finished_ = 0;
};

class RingWriter {
 public:
  RingWriter(std::byte* slots, std::vector<const SlotsRead*> readers, RingSize size)
      : slots_(slots), readers_(std::move(readers)), size_(size) {}

  std::byte* free_slot();                     // the bytes of the next slot; null while a reader has not released it
  void fill(const CallSignature& signature);  // publishes the next slot

  FifoOrder order;

 private:
  std::byte* slots_;
  std::vector<const SlotsRead*> readers_;
  RingSize size_;
  uint64_t filled_ = 0, read_by_all_ = 0;
};

class RingReader {
 public:
  RingReader(std::byte* slots, SlotsRead* slots_read, RingSize size)
      : slots_(slots), slots_read_(slots_read), size_(size) {}

  const std::byte* filled_slot() const;  // the bytes of the next slot; null while it is not filled
  const CallSignature& signature() const;
  void release();  // the writer may fill the slot again

  FifoOrder order;

 private:
  std::byte* slots_;
  SlotsRead* slots_read_;
  RingSize size_;
  uint64_t read_ = 0;
};

// Memory that one process of the machine made and others map. The system frees it when the last of them unmaps it or
// ends, so a crash leaves nothing behind.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes);  // zeros; is_mapped() is false where the system has none left
  // Maps the memory that the process `process_id` made, by the descriptor() that it has in that process.
  SharedMemory(int64_t process_id, int descriptor, size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  bool is_mapped() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  int descriptor() const { return descriptor_; }
  void close_descriptor();  // when all have mapped it

 private:
  void map();

  size_t bytes_;
  int descriptor_;
  std::byte* data_ = nullptr;
};

// The rings of a group that one member writes or reads.
class SharedRings {
 public:
  SharedRings(std::unique_ptr<SharedMemory> memory, int64_t members, int64_t member, RingSize size);

  static size_t bytes_needed(int64_t members, RingSize size);

  RingSize size() const { return size_; }
  RingWriter& to_all() { return to(member_); }
  RingReader& from_all(int64_t member) { return from_all_[static_cast<size_t>(member)]; }
  RingWriter& to(int64_t member) { return to_[static_cast<size_t>(member)]; }
  RingReader& from(int64_t member) { return from_[static_cast<size_t>(member)]; }

  FifoOrder collective_reads;

 private:
  std::unique_ptr<SharedMemory> memory_;
  int64_t member_;
  RingSize size_;
  std::vector<RingWriter> to_;               // by receiver; at the own index is the ring that all others read
  std::vector<RingReader> from_all_, from_;  // by writer
};

}  // namespace terrace::comm
