// Files and windows for the tests of staging.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "terrace/base/random.h"
#include "terrace/data/source.h"
#include "terrace/data/staging/staged_reader.h"
#include "terrace/data/staging/stager.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {

inline std::string drawn_bytes(size_t count, uint32_t seed = 1) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(philox_at({seed, 8}, i / 16, 0)[i % 4] >> (i % 13));
  return bytes;
}

// Waits until `done` is true; whether it was within ten seconds.
inline bool wait_for(const std::function<bool()>& done) {
  for (int i = 0; i < 5000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return done();
}

// The window, its copier and a reader of files of a source or of a test.
struct TestStage {
  TestStage(const std::filesystem::path& folder, const std::vector<const MappedFile*>& files,
            std::function<FileRanges(int64_t)> reads, int64_t last_step, uint64_t extent_bytes, uint64_t slots)
      : window(std::make_shared<StageWindow>(folder, unique_name())) {
    const std::vector<uint64_t> sizes = file_sizes(files);
    window->make(
        {.extent_bytes = extent_bytes, .slots = slots, .extents = Extents(sizes, extent_bytes).count(), .readers = 1});
    window->begin_step(0, 1);
    reader = std::make_shared<const StagedReader>(window, files, 0);
    stager = std::make_unique<Stager>(
        window, StagerRequest{.files = files, .reads = std::move(reads), .last_step = last_step, .folder = folder});
  }

  static std::string unique_name() {
    static int number = 0;
    return std::to_string(::getpid()) + "-" + std::to_string(++number);
  }

  std::shared_ptr<StageWindow> window;
  std::shared_ptr<const StagedReader> reader;
  std::unique_ptr<Stager> stager;
};

inline bool equal(const MicroBatch& a, const MicroBatch& b) {
  if (a.samples != b.samples || a.counts != b.counts || a.sizes != b.sizes || a.tensors.size() != b.tensors.size()) {
    return false;
  }
  return std::ranges::all_of(a.tensors, [&](const auto& named) {
    const HostTensor& other = b.tensors.at(named.first);
    return named.second.type == other.type && named.second.sizes == other.sizes && named.second.bytes == other.bytes;
  });
}

inline bool equal(const std::vector<MicroBatch>& a, const std::vector<MicroBatch>& b) {
  return std::ranges::equal(a, b, [](const MicroBatch& one, const MicroBatch& other) { return equal(one, other); });
}

}  // namespace terrace::data
