// Reads records of mapped files through the buffer of the node: what is in the buffer is read from there, and the rest
// from the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "terrace/data/staging/extents.h"
#include "terrace/data/staging/file_range.h"
#include "terrace/data/staging/staging_buffer.h"

namespace terrace::data {

// The interface of one rank; may be called by several threads at once.
class StagedReader {
 public:
  // `files` are those of the buffer, in its order, and outlive the reader.
  StagedReader(std::shared_ptr<const StagingBuffer> buffer, std::vector<const MappedFile*> files, int64_t reader);

  // Reads the bytes of a range, which has as many as `to`. For other files, and for what is not in the buffer, the
  // bytes are those of the mapping.
  void read(const FileRange& range, std::span<std::byte> to) const;

 private:
  std::shared_ptr<const StagingBuffer> buffer_;
  std::vector<const MappedFile*> files_;
  Extents extents_;
  int64_t reader_;
};

// Numbers of mapped files, at hand in memory while this object lives: the mapping itself where `staged` is null, and
// else a copy. A span of the mapping is used as an address in the file and is not read.
class NumbersAtHand {
 public:
  explicit NumbersAtHand(const StagedReader* staged) : staged_(staged) {}

  template <typename Number>
  std::span<const Number> operator()(const MappedFile& file, std::span<const Number> mapped) {
    if (staged_ == nullptr || mapped.empty()) return mapped;
    std::vector<std::byte>& bytes = kept_.emplace_back(mapped.size_bytes());
    staged_->read(range_of(file, mapped), bytes);
    return {reinterpret_cast<const Number*>(bytes.data()), mapped.size()};
  }

 private:
  const StagedReader* staged_;
  std::deque<std::vector<std::byte>> kept_;
};

}  // namespace terrace::data
