// Boxes in memory that the processes of a machine share, through which the members of a group hand each other what
// calls carry: one for what a member gives to all others, one for what it sends to each. A box is a ring of
// slots, filled by one member and left by its readers in the same order; nothing is locked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "terrace/comm/call.h"

namespace terrace::comm {

// What the calls of both sides must have in common.
struct SlotMark {
  Kind kind = Kind::barrier;
  Type type = Type::uint8;
  int64_t count = 0;
  int64_t peer = -1;

  bool operator==(const SlotMark&) const = default;
};

// In front of a slot's bytes.
struct alignas(64) SlotHead {
  std::atomic<uint64_t> filled = 0;  // how many slots of the box were filled when this one was, last
  SlotMark mark;
};

// On a cache line of its own.
struct alignas(64) SlotsLeft {
  std::atomic<uint64_t> slots = 0;
};

struct BoxSize {
  static constexpr int64_t alignment = 64;  // a cache line

  int64_t slots = 0;
  int64_t slot_bytes = 0;  // a multiple of it

  size_t stride() const { return sizeof(SlotHead) + static_cast<size_t>(slot_bytes); }
};

// Who has which place in a queue of operations that all want the same box.
class Turns {
 public:
  uint64_t take() { return taken_++; }
  bool is_at(uint64_t turn) const { return turn == over_; }
  void end_one() { ++over_; }

 private:
  uint64_t taken_ = 0, over_ = 0;
};

class BoxWriter {
 public:
  BoxWriter(std::byte* slots, std::vector<const SlotsLeft*> readers, BoxSize size)
      : slots_(slots), readers_(std::move(readers)), size_(size) {}

  std::byte* room();                // the bytes of the next slot; null while a reader has not left it yet
  void fill(const SlotMark& mark);  // hands the next slot over

  Turns turns;

 private:
  std::byte* slots_;
  std::vector<const SlotsLeft*> readers_;
  BoxSize size_;
  uint64_t filled_ = 0, all_left_ = 0;
};

class BoxReader {
 public:
  BoxReader(std::byte* slots, SlotsLeft* told, BoxSize size) : slots_(slots), told_(told), size_(size) {}

  const std::byte* slot() const;  // the bytes of the next slot; null while it is not filled
  const SlotMark& mark() const;
  void leave();  // the writer may fill the slot again

  Turns turns;

 private:
  std::byte* slots_;
  SlotsLeft* told_;
  BoxSize size_;
  uint64_t left_ = 0;
};

// Memory that one process of the machine made and others map. It lives until the last of them has left it, and a
// crash leaves nothing behind.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes);  // zeros; is_mapped() is false where the system gives none
  // That of another process, named by its number there and the descriptor() it has.
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

// What one member uses of the boxes of its group.
class SharedBoxes {
 public:
  SharedBoxes(std::unique_ptr<SharedMemory> memory, int64_t members, int64_t member, BoxSize size);

  static size_t bytes_needed(int64_t members, BoxSize size);

  BoxSize size() const { return size_; }
  BoxWriter& to_all() { return to(member_); }
  BoxReader& from_all(int64_t member) { return from_all_[static_cast<size_t>(member)]; }
  BoxWriter& to(int64_t member) { return to_[static_cast<size_t>(member)]; }
  BoxReader& from(int64_t member) { return from_[static_cast<size_t>(member)]; }

  Turns collective_reads;

 private:
  std::unique_ptr<SharedMemory> memory_;
  int64_t member_;
  BoxSize size_;
  std::vector<BoxWriter> to_;               // by receiver; at the own place is the box for all
  std::vector<BoxReader> from_all_, from_;  // by writer
};

}  // namespace terrace::comm
