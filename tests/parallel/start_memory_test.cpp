// The memory of a start: no rank allocates more than what it keeps, the whole buffers of one segment and the initial
// values of one parameter, however large the model is.
#include <gtest/gtest.h>

#include <algorithm>

#include "terrace/memory/meter.h"
#include "tests/parallel/training.h"

namespace terrace::parallel {
namespace {

struct StartMemory {
  int64_t kept = 0, peak = 0;
};

// Starts the training and returns the memory by rank.
std::vector<StartMemory> start(const Training& training, const Layout& layout) {
  std::vector<StartMemory> memory(static_cast<size_t>(layout.ranks));
  comm::run_threads(layout.ranks, {}, [&](comm::World& world) {
    const auto meter = std::make_shared<memory::Meter>();
    const c10::DebugInfoGuard metered(c10::DebugInfoKind::PROFILER_STATE, meter);
    const RankTraining rank(training, layout_config(layout, false), world);
    memory[static_cast<size_t>(world.rank())] = {.kept = meter->now, .peak = meter->peak};
  });
  return memory;
}

struct Sizes {
  int64_t largest_segment = 0, largest_parameter = 0, all = 0;  // elements, on a rank of the tensor axis
};

Sizes sizes_of(const Training& training, const config::LayoutConfig& layout, int64_t data_ranks) {
  const schedule::UnitTable table = small_table(training);
  Sizes sizes;
  for (const schedule::Segment& segment : schedule::partition(table, layout).segments) {
    int64_t elements = 0;
    for (const auto& parameter : schedule::segment_parameters(table, segment)) {
      const int64_t own = schedule::elements_on_rank(parameter.mark, layout.tensor);
      elements += (own + 31) / 32 * 32;
      sizes.largest_parameter = std::max(sizes.largest_parameter, own);
    }
    const int64_t unit = data_ranks * 1024, padded = (elements + unit - 1) / unit * unit;
    sizes.largest_segment = std::max(sizes.largest_segment, padded);
    sizes.all += padded;
  }
  return sizes;
}

// Bytes that a start may hold for a while: fp32 weights and gradients of a segment while its buffers are made, and
// later, instead of them, the initial values of a parameter.
int64_t passing_bytes(const Sizes& sizes) {
  return std::max(sizes.largest_segment * (4 + 4), sizes.largest_parameter * 4);
}

// On 24 ranks a rank keeps much less than the weights of the whole model.
const Layout many_ranks{24, {"pipeline=6", "tensor=4"}};

TEST(StartMemory, PeaksAtWhatARankKeepsPlusOneSegment) {
  const Training training{.model = "cut_gpt2_deep"};
  for (const Layout& layout : {Layout{1, {"sharding=ddp"}},
                               {4, {"sharding=ddp"}},
                               {4, {"sharding=zero1"}},
                               {4, {"sharding=zero3"}},
                               {4, {"sharding=hybrid", "shard_group=2"}},
                               {4, {"pipeline=4"}},
                               {4, {"tensor=2", "sharding=zero3"}},
                               many_ranks}) {
    const config::LayoutConfig config = layout_config(layout, false);
    const Sizes sizes = sizes_of(training, config, layout.ranks / config.tensor / config.pipeline);
    for (const StartMemory& rank : start(training, layout)) {
      EXPECT_LE(rank.peak - rank.kept, passing_bytes(sizes)) << layout.name();
      EXPECT_LE(rank.kept, sizes.all * (4 + 4 + 8)) << layout.name();
    }
  }
}

// A start that allocates the whole model first misses the bound, so the test can fail.
TEST(StartMemory, ExceedsTheBoundIfTheModelIsAllocatedFirst) {
  const Training training{.model = "cut_gpt2_deep", .allocates_first = true};
  const Sizes sizes = sizes_of(training, layout_config(many_ranks, false), 1);
  for (const StartMemory& rank : start(training, many_ranks)) EXPECT_GT(rank.peak - rank.kept, passing_bytes(sizes));
}

TEST(StartMemory, Zero3KeepsAShare) {
  const Training training{.model = "cut_gpt2_deep", .precision = config::Precision::bf16};
  const Layout layout{8, {"sharding=zero3"}};
  const Sizes sizes = sizes_of(training, layout_config(layout, false), layout.ranks);
  for (const StartMemory& rank : start(training, layout)) {
    EXPECT_EQ(rank.kept, sizes.all / layout.ranks * (2 + 4 + 12));
    EXPECT_LT(rank.peak - rank.kept, sizes.all * 2) << "the weights of the whole model";
  }
}

}  // namespace
}  // namespace terrace::parallel
