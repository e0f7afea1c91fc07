// Times the graph of a step with times of computations that are drawn.
#include "terrace/plan/noise/drawn_steps.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <thread>

#include "terrace/base/random.h"
#include "terrace/plan/noise/group_noise.h"

namespace terrace::plan {
namespace {

// Numbers of the stream of one replica in one step, in order.
class ReplicaRandom {
 public:
  ReplicaRandom(PhiloxKey key, uint64_t replica) : key_(key), replica_(replica) {}

  uint32_t bits() {
    if (next_ == block_.size()) {
      block_ = philox_at(key_, number_++, replica_);
      next_ = 0;
    }
    return block_[next_++];
  }
  // In (0, 1).
  double uniform() {
    const uint32_t low = bits();
    return unit_uniform(low, bits()) + 0x1.0p-54;
  }

 private:
  PhiloxKey key_;
  uint64_t replica_, number_ = 0;
  PhiloxBlock block_ = {};
  size_t next_ = std::tuple_size_v<PhiloxBlock>;
};

// The stages of one replica while a step is drawn.
class ReplicaDraw {
 public:
  ReplicaDraw(const NoisyStep& step, const LargestNormal& largest, PhiloxKey key, uint64_t replica)
      : step_(step), largest_(largest), random_(key, replica) {
    const auto stages = static_cast<size_t>(step.graph.num_stages);
    slow_ranks_.assign(stages, 0);
    until_pause_.assign(stages, std::numeric_limits<double>::infinity());
    for (size_t stage = 0; stage < stages; ++stage) {
      for (int64_t rank = 0; step.noise.has_slow_devices() && rank < step.tensor_ranks; ++rank) {
        slow_ranks_[stage] += random_.uniform() < step.noise.slow_devices ? 1 : 0;
      }
      if (step.noise.has_pauses()) until_pause_[stage] = time_to_pause();
    }
  }

  double operator()(const schedule::StepOperation& one) {
    const auto stage = static_cast<size_t>(one.stage);
    double sum = 0;
    for (const double seconds : step_.graph.computations_of(one)) {
      int64_t pauses = 0;
      for (until_pause_[stage] -= seconds; until_pause_[stage] <= 0; ++pauses) until_pause_[stage] += time_to_pause();
      const int64_t slow = slow_ranks_[stage];
      if (pauses > 0) {
        sum += paused_seconds(seconds, slow, pauses);
      } else if (slow > 0) {
        sum += seconds * group_factor(step_.tensor_ranks - slow, slow);
      } else if (step_.noise.instruction_spread > 0) {
        sum += seconds * factor(largest_.draw(random_.bits()));
      } else {
        sum += seconds;
      }
    }
    return sum;
  }

 private:
  double factor(double z) const { return std::max(0.0, 1 + step_.noise.instruction_spread * z); }

  // Computing seconds of the group until one of its ranks pauses.
  double time_to_pause() {
    return -std::log(random_.uniform()) * step_.noise.pause_every_seconds / static_cast<double>(step_.tensor_ranks);
  }

  // The largest of so many factors.
  double largest_factor(int64_t ranks) {
    if (step_.noise.instruction_spread == 0) return 1;
    return factor(normal_quantile(std::pow(random_.uniform(), 1 / static_cast<double>(ranks))));
  }

  double group_factor(int64_t fast, int64_t slow) {
    const double of_fast = fast > 0 ? largest_factor(fast) : 0;
    return slow > 0 ? std::max(of_fast, (1 + step_.noise.slow_by) * largest_factor(slow)) : of_fast;
  }

  // A computation in which ranks pause, of which the first `slow` are slow. Each rank that pauses is drawn by itself,
  // and all others together.
  double paused_seconds(double seconds, int64_t slow, int64_t pauses) {
    std::map<int64_t, int64_t> by_rank;
    for (int64_t i = 0; i < pauses; ++i) {
      const double place = random_.uniform() * static_cast<double>(step_.tensor_ranks);
      ++by_rank[std::min(static_cast<int64_t>(place), step_.tensor_ranks - 1)];
    }
    int64_t fast_others = step_.tensor_ranks - slow, slow_others = slow;
    double most = 0;
    for (const auto& [rank, number] : by_rank) {
      const bool is_slow = rank < slow;
      --(is_slow ? slow_others : fast_others);
      const double own = seconds * (is_slow ? group_factor(0, 1) : group_factor(1, 0));
      most = std::max(most, own + static_cast<double>(number) * step_.noise.pause_seconds);
    }
    return std::max(most, seconds * group_factor(fast_others, slow_others));
  }

  const NoisyStep& step_;
  const LargestNormal& largest_;
  ReplicaRandom random_;
  std::vector<int64_t> slow_ranks_;  // by stage
  std::vector<double> until_pause_;  // by stage: computing seconds of the group until the next pause of a rank
};

}  // namespace

double DrawnSteps::quantile(double share) const {
  const double place = share * static_cast<double>(seconds.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, seconds.size() - 1);
  return std::lerp(seconds[below], seconds[above], place - static_cast<double>(below));
}

DrawnSteps draw_steps(const NoisyStep& step, int64_t draws, uint64_t seed, unsigned threads) {
  const PhiloxKey key = stream_key(seed, "noise of steps");
  const LargestNormal largest(step.tensor_ranks);
  const auto count = static_cast<size_t>(draws);
  std::vector<double> seconds(count), of_replicas(count);
  std::atomic<size_t> next = 0;
  const auto draw = [&] {
    schedule::StepClocks clocks = schedule::StepClocks::of(step.graph);
    for (size_t number = next++; number < count; number = next++) {
      for (int64_t replica = 0; replica < step.replicas; ++replica) {
        const uint64_t stream = number * static_cast<uint64_t>(step.replicas) + static_cast<uint64_t>(replica);
        const double own = schedule::seconds_of(step.graph, clocks, ReplicaDraw(step, largest, key, stream));
        seconds[number] = std::max(seconds[number], own);
        of_replicas[number] += own / static_cast<double>(step.replicas);
      }
    }
  };
  {
    const unsigned all = threads > 0 ? threads : std::thread::hardware_concurrency();
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < all; ++i) others.emplace_back(draw);
    draw();
  }
  const auto mean = [&](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(draws);
  };
  DrawnSteps drawn{.seconds = seconds, .mean_seconds = mean(seconds)};
  drawn.costs = noise_costs(step, mean(of_replicas), drawn.mean_seconds);
  std::ranges::sort(drawn.seconds);
  return drawn;
}

}  // namespace terrace::plan
