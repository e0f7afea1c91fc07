// Nodes take from their neighbours what they will read, and from the source what these do not have.
#include "terrace/data/staging/share_exchange.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>

#include "tests/data/stage_files.h"

namespace terrace::data {
namespace {

constexpr uint64_t exchanged_extent = 4096, extents_of_share = 64;
constexpr int64_t steps_of_round = 60;

// Bytes on their way from one node to another.
class Pipe {
 public:
  void put(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    const std::lock_guard lock(mutex_);
    messages_.emplace_back(bytes.begin(), bytes.end());
    changed_.notify_all();
  }
  void take(std::span<std::byte> bytes, const std::atomic<bool>& cancelled) {
    if (bytes.empty()) return;
    std::unique_lock lock(mutex_);
    while (messages_.empty()) {
      if (cancelled) throw std::runtime_error("given up");
      changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
    if (messages_.front().size() != bytes.size()) throw std::logic_error("messages do not match");
    std::ranges::copy(messages_.front(), bytes.begin());
    messages_.pop_front();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<std::byte>> messages_;
};

// The pipes of a ring in which node n takes from node n + 1.
struct Ring {
  explicit Ring(size_t nodes) : up(nodes), down(nodes) {}
  std::deque<Pipe> up, down;  // into a node: from its taker, and from its giver
};

class RingLinks : public NodeLinks {
 public:
  RingLinks(std::shared_ptr<Ring> ring, size_t node) : ring_(std::move(ring)), node_(node) {}
  void up(std::span<const std::byte> to_giver, std::span<std::byte> from_taker) override {
    ring_->up[(node_ + 1) % ring_->up.size()].put(to_giver);
    ring_->up[node_].take(from_taker, cancelled_);
  }
  void down(std::span<const std::byte> to_taker, std::span<std::byte> from_giver) override {
    ring_->down[(node_ + ring_->up.size() - 1) % ring_->up.size()].put(to_taker);
    ring_->down[node_].take(from_giver, cancelled_);
  }
  void cancel() override { cancelled_ = true; }

 private:
  std::shared_ptr<Ring> ring_;
  size_t node_;
  std::atomic<bool> cancelled_ = false;
};

// In round r node n reads share n + r, in each step four extents of it that a seed draws.
class Exchanges : public testing::Test {
 protected:
  struct Options {
    size_t nodes = 3;
    uint64_t slots = extents_of_share;
    int64_t last_step = 5 * steps_of_round;
  };
  std::vector<std::unique_ptr<TestStage>> start(const Options& options) {
    const auto ring = std::make_shared<Ring>(options.nodes);
    std::vector<std::unique_ptr<TestStage>> nodes;
    for (size_t node = 0; node < options.nodes; ++node) {
      nodes.push_back(std::make_unique<TestStage>(
          folder_ / "disk", std::vector<const MappedFile*>{&file_},
          [this, node, options](int64_t step) { return reads(node, options.nodes, step); }, options.last_step,
          exchanged_extent, options.slots, std::make_shared<RingLinks>(ring, node),
          [](int64_t step) { return ((step - 1) / steps_of_round + 1) * steps_of_round + 1; }));
    }
    return nodes;
  }
  FileRanges reads(size_t node, size_t nodes, int64_t step) const {
    const uint64_t share = (node + static_cast<uint64_t>((step - 1) / steps_of_round)) % nodes;
    FileRanges ranges;
    for (uint32_t draw = 0; draw < 4; ++draw) {
      const uint64_t drawn = philox_at({5, draw}, static_cast<uint64_t>(step), node)[0] % extents_of_share;
      ranges.push_back({&file_, (share * extents_of_share + drawn) * exchanged_extent + 100, 300});
    }
    return ranges;
  }
  // All ranges of the step, compared with the file. Begins the step as a reader does.
  void read(const TestStage& stage, const FileRanges& ranges, int64_t step) const {
    stage.buffer->begin_step(0, step);
    for (const FileRange& range : ranges) {
      std::vector<std::byte> bytes(range.bytes);
      stage.reader->read(range, bytes);
      ASSERT_TRUE(std::ranges::equal(bytes, file_.bytes().subspan(range.offset, range.bytes))) << "step " << step;
    }
  }
  static void finish(std::vector<std::unique_ptr<TestStage>>& nodes) {
    std::vector<std::jthread> threads;
    for (const auto& node : nodes) threads.emplace_back([&node] { node->stager->finish(); });
  }
  void go_through(std::vector<std::unique_ptr<TestStage>>& nodes, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      for (size_t node = 0; node < nodes.size(); ++node) read(*nodes[node], reads(node, nodes.size(), step), step);
      // Early in a round the steps take a little, so that an exchange has time.
      if ((step - 1) % steps_of_round < 10) std::this_thread::sleep_for(std::chrono::milliseconds(8));
    }
  }

  TemporaryFolder folder_;
  MappedFile file_{folder_.write("records", drawn_bytes(4 * extents_of_share * exchanged_extent))};
};

TEST_F(Exchanges, SharesComeFromTheNeighbourAndNotFromTheSource) {
  for (const size_t count : {2, 3, 4}) {
    SCOPED_TRACE(count);
    auto nodes = start({.nodes = count});
    go_through(nodes, 1, 4 * steps_of_round);
    finish(nodes);
    for (const auto& node : nodes) {
      // The first share came from the source, and of the three after it what the neighbour had not drawn.
      EXPECT_LE(node->buffer->copied_bytes(), (extents_of_share + 3 * 10) * exchanged_extent);
      EXPECT_GE(node->buffer->received_bytes(), 3 * (extents_of_share - 12) * exchanged_extent);
    }
  }
}

TEST_F(Exchanges, ANodeWhoseDiskIsLostLeavesItsTakerToTheSource) {
  auto nodes = start({});
  go_through(nodes, 1, 10);
  nodes[1]->buffer->declare_lost();
  go_through(nodes, 11, 2 * steps_of_round);
  finish(nodes);
  EXPECT_EQ(nodes[0]->buffer->received_bytes(), 0u) << "its giver has lost all";
  EXPECT_GE(nodes[0]->buffer->copied_bytes(), (2 * extents_of_share - 12) * exchanged_extent);
  EXPECT_GE(nodes[2]->buffer->received_bytes(), (extents_of_share - 12) * exchanged_extent);
}

TEST_F(Exchanges, ASmallBufferTakesWhatItHasRoomFor) {
  auto nodes = start({.slots = 6});
  for (int64_t step = 1; step <= 3 * steps_of_round; ++step) {
    for (size_t node = 0; node < nodes.size(); ++node) read(*nodes[node], reads(node, nodes.size(), step), step);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  finish(nodes);
}

// Some nodes are in an exchange already when the run ends, and others are not.
TEST_F(Exchanges, EndWhereverTheNodesAre) {
  for (const size_t ahead : {0, 1, 2, 3}) {
    SCOPED_TRACE(ahead);
    auto nodes = start({});
    go_through(nodes, 1, steps_of_round - 2);
    for (size_t node = 0; node < ahead; ++node) nodes[node]->buffer->begin_step(0, steps_of_round + 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    finish(nodes);
  }
}

// A rank that fails destroys what it has, and the others wait for it in vain until they are destroyed too.
TEST_F(Exchanges, AreGivenUpWithoutAnEnd) {
  testing::internal::CaptureStdout();
  auto nodes = start({});
  go_through(nodes, 1, steps_of_round - 2);
  nodes[0]->buffer->begin_step(0, steps_of_round + 1);
  nodes[1]->buffer->begin_step(0, steps_of_round + 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (auto& node : nodes) node.reset();
  EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::HasSubstr("given up"));
}

}  // namespace
}  // namespace terrace::data
