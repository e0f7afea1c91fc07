// Computes the distribution of a replica's step as a mixture over its slow stages and the number of its pauses, and the
// mean of the largest of all replicas from it.
#include "terrace/plan/noise/expected_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "terrace/plan/noise/clock_moments.h"
#include "terrace/plan/noise/group_noise.h"

namespace terrace::plan {
namespace {

using schedule::StepOperation;

// The time of a replica: normal, and a number of pauses with Poisson's distribution.
struct ReplicaTime {
  double probability = 1;
  Moments moments;
  double pauses = 0, pause_seconds = 0;

  double mean() const { return moments.mean + pauses * pause_seconds; }
  double deviation() const { return std::sqrt(moments.variance); }
  // Seconds that the time does not exceed.
  double most() const {
    constexpr double far = 8;
    return moments.mean + far * deviation() + (pauses + far * std::sqrt(pauses) + far) * pause_seconds;
  }
  // The probability that the time is at most x.
  double distribution(double x) const {
    // Nearly normal with many pauses.
    constexpr double many = 30;
    const double variance = moments.variance + (pauses > many ? pauses * pause_seconds * pause_seconds : 0);
    const auto normal = [&](double mean) {
      if (variance == 0) return x >= mean ? 1.0 : 0.0;
      return normal_probability((x - mean) / std::sqrt(variance));
    };
    if (pauses == 0) return normal(moments.mean);
    if (pauses > many) return normal(mean());
    double sum = 0, probability = std::exp(-pauses);
    for (int number = 0; number < pauses + 8 * std::sqrt(pauses) + 8; ++number) {
      sum += probability * normal(moments.mean + number * pause_seconds);
      probability *= pauses / (number + 1);
    }
    return sum;
  }
};

// A function's value at x.
struct Point {
  double x, value;
};

// The integral of a function between two points by Simpson's rule, halved until the error is below the tolerance.
template <typename Function>
double integral(const Function& function, const Point& begin, const Point& end, double tolerance, int halvings = 24) {
  const double width = end.x - begin.x;
  const auto at = [&](double place) {
    const double x = begin.x + place * width;
    return Point{x, function(x)};
  };
  if (width <= 0) return 0;
  const Point middle = at(0.5), first = at(0.25), second = at(0.75);
  const double coarse = width / 6 * (begin.value + 4 * middle.value + end.value);
  const double fine = width / 12 * (begin.value + 4 * first.value + 2 * middle.value + 4 * second.value + end.value);
  if (halvings == 0 || std::abs(fine - coarse) <= 15 * tolerance) return fine;
  return integral(function, begin, middle, tolerance / 2, halvings - 1) +
         integral(function, middle, end, tolerance / 2, halvings - 1);
}

class Expectation {
 public:
  explicit Expectation(const NoisyStep& step) : step_(step), group_(step.noise, step.tensor_ranks) {}

  ExpectedStep expected() {
    const std::vector<ReplicaTime> times = replica_times();
    const double of_replica = std::accumulate(times.begin(), times.end(), 0.0, [](double sum, const ReplicaTime& one) {
      return sum + one.probability * one.mean();
    });
    const double seconds = step_.replicas == 1 ? of_replica : mean_of_largest(times);
    return {.seconds = seconds,
            .costs = noise_costs(step_, of_replica, seconds),
            .noiseless_seconds = step_.noiseless_seconds};
  }

 private:
  // The moments of each operation's computations if these stages have a slow rank.
  std::vector<Moments> computing(const std::vector<bool>& slow) const {
    const Moments fast = group_.time(0), of_slow = step_.noise.has_slow_devices() ? group_.slow_time() : fast;
    std::vector<Moments> all;
    for (const StepOperation& one : step_.graph.operations) {
      const Moments& time = slow[static_cast<size_t>(one.stage)] ? of_slow : fast;
      Moments sum;
      for (const double seconds : step_.graph.computations_of(one)) {
        sum.mean += seconds * time.mean;
        sum.variance += seconds * seconds * time.variance;
      }
      all.push_back(sum);
    }
    return all;
  }

  double mean_seconds(const std::vector<bool>& slow) const {
    const std::vector<Moments> all = computing(slow);
    schedule::StepClocks clocks = schedule::StepClocks::of(step_.graph);
    return schedule::seconds_of(step_.graph, clocks, [&](const StepOperation& one) {
      return all[static_cast<size_t>(&one - step_.graph.operations.data())].mean;
    });
  }

  // Rare pauses do not meet, so each makes the step longer by what exceeds the float of its operation. Frequent ones on
  // several stages do, and the step waits for the longer one: they are parts of the times of computations, like their
  // spread. Both ways of counting take too many pauses where they do not fit, so the smaller time counts.
  ReplicaTime replica_time(const std::vector<bool>& slow) const {
    const std::vector<Moments> all = computing(slow);
    const ReplicaTime rare = with_rare_pauses(all);
    if (rare.pauses == 0) return rare;
    std::vector<Moments> with_pauses = all;
    for (size_t i = 0; i < all.size(); ++i) {
      for (const double seconds : step_.graph.computations_of(step_.graph.operations[i])) {
        const GroupPauses pauses = group_.pauses(seconds);
        with_pauses[i].mean += pauses.number * pauses.seconds;
        with_pauses[i].variance += pauses.number * (1 - pauses.number) * pauses.seconds * pauses.seconds;
      }
    }
    const ReplicaTime frequent{.moments = step_moments(step_.graph, with_pauses)};
    return frequent.mean() < rare.mean() ? frequent : rare;
  }

  ReplicaTime with_rare_pauses(const std::vector<Moments>& all) const {
    ReplicaTime time{.moments = step_moments(step_.graph, all)};
    if (!step_.noise.has_pauses()) return time;
    std::vector<double> means;
    for (const Moments& one : all) means.push_back(one.mean);
    const std::vector<double> floats = schedule::floats_of(step_.graph, means);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < floats.size(); ++i) {
      for (const double seconds : step_.graph.computations_of(step_.graph.operations[i])) {
        const GroupPauses pauses = group_.pauses(seconds);
        const double longer = std::max(0.0, pauses.seconds - floats[i]);
        sum += pauses.number * longer;
        squares += pauses.number * longer * longer;
      }
    }
    if (sum == 0) return time;
    // As many equal pauses as have the same sum and the same sum of squares.
    time.pause_seconds = squares / sum;
    time.pauses = sum / time.pause_seconds;
    return time;
  }

  // The times without slow stages, and with each stage as the slow stage that makes the step longest. Stages before it
  // in this order may be slow too, and make the step longer by what they add to the filling of the pipeline: together
  // by what it takes longer if all stages are slow than if the last one in the order is. What the times of computations
  // add to the step of mean times is known of no slow stage and of the last one, and interpolated between these.
  std::vector<ReplicaTime> replica_times() const {
    const auto stages = static_cast<size_t>(step_.graph.num_stages);
    const ReplicaTime none = replica_time(std::vector<bool>(stages, false));
    if (!step_.noise.has_slow_devices()) return {none};
    std::vector<std::pair<double, size_t>> order;
    for (size_t stage = 0; stage < stages; ++stage) order.emplace_back(mean_seconds(only(stage)), stage);
    std::ranges::sort(order);
    const double fast_seconds = mean_seconds(std::vector<bool>(stages, false)), last_seconds = order.back().first;
    // The seconds that each other slow stage adds.
    const double filling = (mean_seconds(std::vector<bool>(stages, true)) - last_seconds) /
                           static_cast<double>(std::max<size_t>(1, stages - 1));
    const ReplicaTime last = replica_time(only(order.back().second));
    const double share = 1 - group_.probability_of_slow(0);
    double left = 1;  // the probability that no stage behind this one in the order is slow
    std::vector<ReplicaTime> times;
    for (size_t i = stages; i > 0; --i) {
      const double seconds = order[i - 1].first;
      const double place = last_seconds > fast_seconds ? (seconds - fast_seconds) / (last_seconds - fast_seconds) : 1;
      const double others = share * static_cast<double>(i - 1);  // slow stages before this one
      const double longer =
          std::lerp(none.moments.mean - fast_seconds, last.moments.mean - last_seconds, place) + others * filling;
      const double variance =
          std::lerp(none.moments.variance, last.moments.variance, place) + others * (1 - share) * filling * filling;
      times.push_back({.probability = left * share,
                       .moments = {seconds + longer, variance},
                       .pauses = std::lerp(none.pauses, last.pauses, place),
                       .pause_seconds = std::lerp(none.pause_seconds, last.pause_seconds, place)});
      left *= 1 - share;
    }
    times.push_back(none);
    times.back().probability = left;
    return times;
  }

  std::vector<bool> only(size_t stage) const {
    std::vector<bool> slow(static_cast<size_t>(step_.graph.num_stages), false);
    slow[stage] = true;
    return slow;
  }

  // The mean of the largest of all replicas' times: the least that one takes and the integral of 1 - F^replicas, the
  // probability that one of them takes more than x.
  double mean_of_largest(std::vector<ReplicaTime> times) const {
    constexpr double negligible = 1e-12, tolerance = 1e-6;
    std::erase_if(times, [](const ReplicaTime& one) { return one.probability < negligible; });
    std::vector<double> bounds;
    for (const ReplicaTime& one : times) {
      for (const double z : {-8, -3, 0, 3, 8}) {
        for (const int pauses : {0, 1, 2}) {
          bounds.push_back(one.moments.mean + z * one.deviation() + pauses * one.pause_seconds);
        }
      }
      bounds.push_back(one.most());
    }
    std::ranges::sort(bounds);
    const auto more = [&](double x) {
      double distribution = 0;
      for (const ReplicaTime& one : times) distribution += one.probability * one.distribution(x);
      return 1 - std::pow(std::min(1.0, distribution), static_cast<double>(step_.replicas));
    };
    double mean = bounds.front();
    for (size_t i = 1; i < bounds.size(); ++i) {
      mean += integral(more, {bounds[i - 1], more(bounds[i - 1])}, {bounds[i], more(bounds[i])},
                       tolerance * mean / static_cast<double>(bounds.size()));
    }
    return mean;
  }

  const NoisyStep& step_;
  GroupNoise group_;
};

}  // namespace

ExpectedStep expected_step(const NoisyStep& step) { return Expectation(step).expected(); }

}  // namespace terrace::plan
