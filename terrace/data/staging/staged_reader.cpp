// Divides ranges into extents, and counts where each was read.
#include "terrace/data/staging/staged_reader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::data {

StagedReader::StagedReader(std::shared_ptr<const StagingBuffer> buffer, std::vector<const MappedFile*> files,
                           int64_t reader)
    : buffer_(std::move(buffer)),
      files_(std::move(files)),
      extents_(file_sizes(files_), buffer_->size().extent_bytes),
      reader_(reader) {
  TERRACE_CHECK(extents_.count() == buffer_->size().extents, "{} extents of the files in a window of {}",
                extents_.count(), buffer_->size().extents);
}

void StagedReader::read(const FileRange& range, std::span<std::byte> to) const {
  TERRACE_CHECK(range.bytes == to.size(), "{} bytes into {}", range.bytes, to.size());
  const auto found = std::ranges::find(files_, range.file);
  const std::span<const std::byte> mapped = range.file->bytes().subspan(range.offset, range.bytes);
  if (found == files_.end()) {
    std::ranges::copy(mapped, to.begin());
    return;
  }
  StageCounts counts;
  size_t done = 0;
  extents_.for_each_part(
      static_cast<size_t>(found - files_.begin()), range.offset, range.bytes, [&](const Extents::Part& part) {
        if (buffer_->read(part.extent, part.begin, to.subspan(done, part.bytes))) {
          counts.staged_bytes += part.bytes;
        } else {
          const auto began = std::chrono::steady_clock::now();
          range.file->expect(range.offset + done, part.bytes);
          std::memcpy(to.data() + done, mapped.data() + done, part.bytes);
          const auto took = std::chrono::steady_clock::now() - began;
          counts.source_bytes += part.bytes;
          counts.source_nanoseconds +=
              static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
        }
        done += part.bytes;
      });
  buffer_->count(reader_, counts);
}

}  // namespace terrace::data
