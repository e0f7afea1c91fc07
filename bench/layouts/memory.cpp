// Peak resident memory of a process that trains a model of 85 million parameters on two ranks, beside what
// docs/sharding.md says of weights, gradients and optimizer states, the program itself, and what the meter counts of
// activations and whole units. Usage: bench_layouts_memory SHARDING [section.key=value...]
#include "terrace/observe/memory.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <spdlog/spdlog.h>

#include <mutex>

#include "bench_run.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/memory/host_memory.h"
#include "terrace/mesh/shards.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/partition.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"
#include "terrace/train/world_options.h"

namespace {

using namespace terrace;

constexpr int64_t ranks = 2, vocabulary = 8192;

// Tensors that a thread takes and gives back.
struct Meter : c10::MemoryReportingInfoBase {
  int64_t now = 0, peak = 0;
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    now += size;
    peak = std::max(peak, now);
  }
  bool memoryProfilingEnabled() const override { return true; }
};

struct Bytes {
  int64_t weights = 0, gradients = 0, optimizer = 0;  // by the formula
  int64_t metered = 0;

  int64_t total() const { return weights + gradients + optimizer + metered; }
};

// "Memory" in docs/sharding.md, without what is there only for a while.
Bytes formula(train::Trainer& trainer) {
  const config::Config& config = trainer.config();
  const mesh::ShardSizes sizes = mesh::shard_sizes(config.layout, trainer.mesh());
  const int64_t padding = 1024 * sizes.ranks;
  int64_t n = 0;
  const schedule::UnitTable table = schedule::unit_table(config);
  for (const schedule::Segment& segment : schedule::partition(table, config.layout).segments) {
    int64_t elements = 0;
    for (const auto& parameter : schedule::segment_parameters(table, segment)) {
      elements += (schedule::elements_on_rank(parameter.mark, config.layout.tensor) + 31) / 32 * 32;
    }
    n += (elements + padding - 1) / padding * padding;
  }
  const bool fp32 = config.train.precision == config::Precision::fp32;
  return {.weights = (fp32 ? 4 : 2) * n / sizes.weights,
          .gradients = 4 * n / sizes.gradients,
          .optimizer = (fp32 ? 8 : 12) * n / sizes.optimizer};
}

// The memory of all ranks together. The first step takes what stays, the second is metered.
Bytes two_steps(const config::Config& config, int64_t& peak_at_start) {
  Bytes all;
  std::mutex mutex;
  comm::run_threads(ranks, train::world_options(config), [&](comm::World& world) {
    train::Trainer trainer(config, train::Peak{}, {}, &world);
    if (world.rank() == 0) peak_at_start = observe::peak_resident_bytes();
    trainer.step();
    const auto meter = std::make_shared<Meter>();
    {
      const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
      trainer.step();
    }
    const Bytes own = formula(trainer);
    const std::lock_guard lock(mutex);
    all.weights += own.weights;
    all.gradients += own.gradients;
    all.optimizer += own.optimizer;
    all.metered += meter->peak;
  });
  return all;
}

config::Config config_of(const bench::Folder& folder, const std::string& sharding, int64_t layers, int64_t width,
                         const std::vector<std::string>& more) {
  std::vector<std::string> overrides = {fmt::format("model.layers={}", layers),
                                        fmt::format("model.width={}", width),
                                        "model.heads=8",
                                        "model.sequence=256",
                                        "train.global_batch=2",
                                        "layout.sharding=" + sharding};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return bench::config_of(folder, vocabulary, overrides);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    fmt::print(stderr, "usage: {} SHARDING [section.key=value...]\n", arguments[0]);
    return 2;
  }
  const std::string sharding = arguments[1];
  const std::vector<std::string> more(arguments + 2, arguments + count);
  spdlog::set_level(spdlog::level::warn);
  train::prepare_machine(1);
  const bench::Folder folder;
  int64_t peak_at_start = 0;
  // Libraries load what they need at their first use; that is the program's memory, not the model's.
  two_steps(config_of(folder, sharding, 1, 64, more), peak_at_start);
  const int64_t program = observe::resident_bytes();
  const Bytes bytes = two_steps(config_of(folder, sharding, 6, 1024, more), peak_at_start);
  const int64_t peak = observe::peak_resident_bytes(), expected = program + bytes.total();
  const auto mib = [](int64_t value) { return static_cast<double>(value) / (1 << 20); };
  fmt::print(
      "| sharding | program | weights | gradients | optimizer | metered | together | peak at start | peak | deviation "
      "|\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  fmt::print("| {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:+.1f}% | {:.0f} |\n",
             sharding, mib(program), mib(bytes.weights), mib(bytes.gradients), mib(bytes.optimizer), mib(bytes.metered),
             mib(expected), mib(peak_at_start), mib(peak), 100 * (mib(peak) / mib(expected) - 1),
             mib(memory::host_memory().kept_bytes));
  return 0;
}
