// Measures how evenly ranks share the graphs of a step, and how long the division takes.
// Usage: bench_data_graph_balance PREFIX [RADIUS]   (a dataset of terrace data prepare --kind graphs)
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/random.h"
#include "terrace/data/divided_samples.h"
#include "terrace/data/graphs/dataset/edge_counts.h"
#include "terrace/data/graphs/dataset/graphs_dataset.h"

namespace {

using Clock = std::chrono::steady_clock;
using terrace::data::DividedSamples;
using terrace::data::SampleCost;
using terrace::data::SizesOfSamples;

// The mean over the greatest of the ranks' costs.
double mean_over_greatest(const DividedSamples& divided, const std::vector<double>& costs) {
  double sum = 0, greatest = 0;
  for (const auto& own : divided) {
    double of_rank = 0;
    for (const auto& batch : own) {
      for (const int64_t sample : batch) of_rank += costs[static_cast<size_t>(sample)];
    }
    sum += of_rank;
    greatest = std::max(greatest, of_rank);
  }
  return sum / static_cast<double>(divided.size()) / greatest;
}

// Consecutive graphs, an equal number for each rank.
DividedSamples consecutive_graphs(int64_t ranks, int64_t each) {
  DividedSamples divided(static_cast<size_t>(ranks), {{}});
  for (int64_t sample = 0; sample < ranks * each; ++sample)
    divided[static_cast<size_t>(sample / each)][0].push_back(sample);
  return divided;
}

double median_of(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void report(const SizesOfSamples& all, const SampleCost& cost, int64_t ranks, int64_t each) {
  constexpr uint64_t steps = 200;
  const auto structures = static_cast<uint64_t>(all.at("atoms").size());
  const auto step_samples = static_cast<uint64_t>(ranks * each);
  double consecutive = 0, by_cost = 0, under_budget = 0, least = 1;
  std::vector<double> seconds, budget_seconds;
  for (uint64_t step = 0; step < steps; ++step) {
    SizesOfSamples sizes = {{"atoms", {}}, {"edges", {}}};
    for (uint64_t i = 0; i < step_samples; ++i) {
      const uint64_t number = step * step_samples + i, epoch = number / structures;
      const terrace::PhiloxKey key = {static_cast<uint32_t>(epoch), 7};
      const auto structure = static_cast<size_t>(terrace::permute(key, structures, number % structures));
      for (auto& [name, list] : sizes) list.push_back(all.at(name)[structure]);
    }
    const std::vector<double> costs = costs_of(sizes, cost);
    consecutive += mean_over_greatest(consecutive_graphs(ranks, each), costs);
    const auto timed = [&](const terrace::data::MicroBatchLimit& limit, std::vector<double>& times) {
      const Clock::time_point began = Clock::now();
      const DividedSamples divided = divide_by_cost(sizes, cost, limit, ranks);
      times.push_back(std::chrono::duration<double>(Clock::now() - began).count());
      return mean_over_greatest(divided, costs);
    };
    const double balance = timed({.samples = each}, seconds);
    by_cost += balance;
    least = std::min(least, balance);
    under_budget += timed({.budget = {{"atoms", 1024}, {"edges", 32768}}}, budget_seconds);
  }
  const auto mean = [](double sum) { return sum / static_cast<double>(steps); };
  fmt::print("| {} x {} | {:.3f} | {:.4f} | {:.4f} | {:.4f} | {:.2f} ms | {:.2f} ms |\n", ranks, each,
             mean(consecutive), mean(by_cost), least, mean(under_budget), 1e3 * median_of(seconds),
             1e3 * median_of(budget_seconds));
}

int run(const std::string& prefix, double radius) {
  const terrace::data::GraphsDataset dataset(prefix);
  const terrace::data::EdgeCounts counts = terrace::data::edge_counts(dataset, {.radius = radius});
  SizesOfSamples sizes = {{"atoms", {}}, {"edges", {counts.edges.begin(), counts.edges.end()}}};
  for (int64_t structure = 0; structure < dataset.structures(); ++structure) {
    sizes["atoms"].push_back(dataset.atoms_of(structure));
  }
  const SampleCost cost{.sample = 0, .of_sizes = {{"atoms", 10}, {"edges", 1}}};
  fmt::print("{} structures, cost = 10 atoms + edges; mean over greatest cost of a rank, 200 steps\n\n",
             dataset.structures());
  fmt::print(
      "| ranks x graphs | consecutive | by cost | by cost, least | by cost in a budget | time | time in a budget |\n");
  fmt::print("| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const auto& [ranks, each] : {std::pair<int64_t, int64_t>{2, 32}, {8, 32}, {64, 8}, {256, 8}}) {
    report(sizes, cost, ranks, each);
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 && count != 3) {
    fmt::print(stderr, "usage: {} PREFIX [RADIUS]\n", arguments[0]);
    return 2;
  }
  try {
    return run(arguments[1], count == 3 ? std::strtod(arguments[2], nullptr) : 5);
  } catch (const terrace::UserError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
