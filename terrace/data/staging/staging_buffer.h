// The staging buffer of a node: extents of the data on a disk of the node. One process copies them there, and all
// processes of the node read them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace terrace::data {

// The bytes that a reader has read since the start.
struct StageCounts {
  uint64_t staged_bytes = 0;        // from the buffer
  uint64_t source_bytes = 0;        // from the files themselves, as they were not in the buffer
  uint64_t source_nanoseconds = 0;  // how long that took
  StageCounts& operator+=(const StageCounts& other);
  bool operator==(const StageCounts&) const = default;
};

// The slots are a file on the disk, and which extent is in which slot is a table in shared memory, so that a disk that
// is lost ends no process. Both have names only until all processes have opened them: the system removes them when the
// last process ends in any way.
class StagingBuffer {
 public:
  struct Size {
    uint64_t extent_bytes = 0, slots = 0, extents = 0, readers = 0;
  };
  // Makes the two names of a buffer: `name` is the node's own, such as that of the run with the number of the node.
  StagingBuffer(std::filesystem::path folder, std::string name);
  StagingBuffer(const StagingBuffer&) = delete;
  ~StagingBuffer();

  // Makes the buffer; called by the process that copies. Removes what killed runs left in the folder. Throws UserError
  // where the folder cannot be made or written to.
  void make(const Size& size);
  // Opens the buffer; called by the other processes, after make(). Throws UserError where they do not find the buffer.
  void open();
  // Removes the names; called by the process that copies, once all have opened the buffer.
  void remove_names();

  const Size& size() const;

  // Reads bytes of an extent. Returns whether the extent is there. Where the disk fails, the buffer counts as lost from
  // then on, which one process of the node logs.
  bool read(uint32_t extent, uint64_t begin, std::span<std::byte> to) const;
  bool lost() const;

  // These calls are for the process that copies. An extent is first written and then published; a slot is written only
  // after the extent in it was withdrawn. write() returns 0, or the number of the system's error.
  int write(uint32_t slot, std::span<const std::byte> bytes);
  void publish(uint32_t extent, uint32_t slot);
  void withdraw(uint32_t extent);
  // Declares the buffer lost: nothing is read from it any more. Returns whether this call was the first.
  bool declare_lost() const;

  // Note the step that a reader begins to read, and return the least one of all readers.
  void begin_step(int64_t reader, int64_t step) const;
  int64_t least_step() const;
  void count(int64_t reader, const StageCounts& more) const;
  void count_copied(uint64_t bytes) const;
  void count_received(uint64_t bytes) const;
  // Returns the counts of all readers together.
  StageCounts counts() const;
  uint64_t copied_bytes() const;    // into the buffer from the source
  uint64_t received_bytes() const;  // into the buffer from other nodes

 private:
  struct Header;
  struct alignas(64) Reader;
  void map(int descriptor, size_t bytes);
  std::atomic<uint64_t>* table() const;
  Reader& reader(int64_t number) const;

  std::filesystem::path folder_, disk_name_;
  std::string memory_name_;
  int disk_ = -1;
  bool has_names_ = false;
  std::byte* memory_ = nullptr;
  size_t memory_bytes_ = 0;
  uint64_t published_ = 0;  // extents so far, which tells apart two that were in a slot one after the other
};

// Returns the bytes of a buffer on the disk of `folder`: `wanted`, or where that is 0 as many as the data have, but at
// most 90% of what is free there now.
uint64_t buffer_bytes(const std::filesystem::path& folder, uint64_t wanted, uint64_t data_bytes);

}  // namespace terrace::data
