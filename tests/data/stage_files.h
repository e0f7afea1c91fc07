// Files and buffers for the tests of staging.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
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

// The buffer, its copier and a reader of files of a source or of a test.
struct TestStage {
  TestStage(const std::filesystem::path& folder, const std::vector<const MappedFile*>& files,
            std::function<FileRanges(int64_t)> reads, int64_t last_step, uint64_t extent_bytes, uint64_t slots,
            std::shared_ptr<NodeLinks> links = nullptr, std::function<int64_t(int64_t)> next_exchange = {})
      : buffer(std::make_shared<StagingBuffer>(folder, unique_name())) {
    const std::vector<uint64_t> sizes = file_sizes(files);
    buffer->make(
        {.extent_bytes = extent_bytes, .slots = slots, .extents = Extents(sizes, extent_bytes).count(), .readers = 1});
    buffer->begin_step(0, 1);
    reader = std::make_shared<const StagedReader>(buffer, files, 0);
    stager = std::make_unique<Stager>(buffer, StagerRequest{.files = files,
                                                            .reads = std::move(reads),
                                                            .last_step = last_step,
                                                            .folder = folder,
                                                            .links = std::move(links),
                                                            .next_exchange = std::move(next_exchange)});
  }

  static std::string unique_name() {
    static int number = 0;
    return std::to_string(::getpid()) + "-" + std::to_string(++number);
  }

  std::shared_ptr<StagingBuffer> buffer;
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

inline constexpr int64_t staged_steps = 12;
inline constexpr uint64_t staged_extent = 4096;

inline StepShare staged_share(int64_t step, int64_t rank) {
  return {.step = step,
          .first_sample = static_cast<uint64_t>(step - 1) * 6,
          .samples = 6,
          .rank = rank,
          .ranks = 2,
          .micro_batch = 2};
}

inline FileRanges all_reads(const Source& source, int64_t step, const TensorNames& names) {
  FileRanges ranges;
  for (const int64_t rank : {0, 1}) {
    const FileRanges own = source.reads(staged_share(step, rank), names);
    ranges.insert(ranges.end(), own.begin(), own.end());
  }
  if (step != staged_steps) return ranges;
  for (const HeldOut& held_out : source.held_out(1000)) {
    RoundShare share{.ranks = 2, .micro_batch = 2};
    for (share.round = 0; share.round < source.rounds(held_out, share); ++share.round) {
      for (share.rank = 0; share.rank < 2; ++share.rank) {
        const FileRanges own = source.held_out_reads(held_out, share, names);
        ranges.insert(ranges.end(), own.begin(), own.end());
      }
    }
  }
  return ranges;
}

// All batches of all steps and of an evaluation.
inline std::vector<MicroBatch> all_batches(const Source& source, const TensorNames& names) {
  std::vector<MicroBatch> batches;
  const auto add = [&](MicroBatch batch) { batches.push_back(std::move(batch)); };
  for (int64_t step = 1; step <= staged_steps; ++step) {
    for (const int64_t rank : {0, 1}) {
      for (MicroBatch& batch : source.micro_batches(staged_share(step, rank), names)) add(std::move(batch));
    }
  }
  for (const HeldOut& held_out : source.held_out(1000)) {
    RoundShare share{.ranks = 2, .micro_batch = 2};
    for (share.round = 0; share.round < source.rounds(held_out, share); ++share.round) {
      for (share.rank = 0; share.rank < 2; ++share.rank) {
        add(source.held_out_micro_batch(held_out, share, names));
      }
    }
  }
  return batches;
}

// Batches of several steps may be made at once.
inline void expect_same_on_threads(const Source& source, const TensorNames& names) {
  const auto of_step = [&](int64_t step) { return source.micro_batches(staged_share(step, step % 2), names); };
  std::vector<std::vector<MicroBatch>> right, made(staged_steps);
  for (int64_t step = 1; step <= staged_steps; ++step) right.push_back(of_step(step));
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (int64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (int64_t step = 1 + thread; step <= staged_steps; step += 4)
          made[static_cast<size_t>(step - 1)] = of_step(step);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < right.size(); ++i) EXPECT_TRUE(equal(made[i], right[i])) << "step " << i + 1;
  }
}

// `open` opens the same data each time. With a buffer for all, no byte may come from the source once all is copied:
// then reads() named every range. With one for a few extents some bytes do, and the batches are the same all the same.
inline void expect_same_when_staged(const TemporaryFolder& folder, const std::function<std::unique_ptr<Source>()>& open,
                                    const TensorNames& names) {
  const auto plain = open();
  const std::vector<MicroBatch> right = all_batches(*plain, names);
  expect_same_on_threads(*plain, names);
  std::set<uint32_t> extents;
  const auto files = plain->staged_files();
  const Extents numbered(file_sizes(files), staged_extent);
  uint64_t wanted = 0;
  for (int64_t step = 1; step <= staged_steps; ++step) {
    for (const FileRange& range : all_reads(*plain, step, names)) {
      const auto file = static_cast<size_t>(std::ranges::find(files, range.file) - files.begin());
      numbered.for_each_part(file, range.offset, range.bytes, [&](const Extents::Part& part) {
        if (extents.insert(part.extent).second) wanted += numbered.place(part.extent).bytes;
      });
    }
  }
  ASSERT_GT(extents.size(), 4u);  // else a buffer of two would hold all
  for (const uint64_t slots : {extents.size(), size_t{2}}) {
    SCOPED_TRACE(slots);
    const auto source = open();
    const TestStage stage(
        folder / "disk", source->staged_files(), [&](int64_t step) { return all_reads(*source, step, names); },
        staged_steps, staged_extent, slots);
    source->read_by(stage.reader);
    if (slots == extents.size()) {
      ASSERT_TRUE(wait_for([&] { return stage.buffer->copied_bytes() == wanted; }));
    }
    EXPECT_TRUE(equal(all_batches(*source, names), right));
    if (slots == extents.size()) {
      EXPECT_EQ(stage.buffer->counts().source_bytes, 0u);
      EXPECT_GT(stage.buffer->counts().staged_bytes, 0u);
    } else {
      EXPECT_GT(stage.buffer->counts().source_bytes, 0u);
    }
    source->read_by(nullptr);
  }
}

}  // namespace terrace::data
