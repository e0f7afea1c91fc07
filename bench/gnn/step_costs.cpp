// Measures how well the cost by which ranks share graphs predicts the time of steps.
//
//     bench_gnn_step_costs CONFIG [section.key=value...]
//
// Trains 400 steps of the configuration, of one rank, and fits time = a + b cost to every other one. Prints the errors
// of the rest, and those of a fit with three factors of its own, for graphs, atoms and edges, beside the factors that
// the cost has.
#include <ATen/ops/linalg_lstsq.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/data/graphs/graphs_source.h"
#include "terrace/models/families.h"
#include "terrace/models/gnn/cost/request.h"
#include "terrace/models/gnn/settings/config.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"

namespace {

constexpr int warm_up = 20, steps = 400;

// A step as the fit reads it: what it has, beginning with 1, and its time.
struct MeasuredStep {
  std::vector<double> has;
  double milliseconds = 0;
};

// The factors by which the errors of every other step, in proportion to its time, have the least squares.
std::vector<double> fitted(const std::vector<MeasuredStep>& measured) {
  const auto columns = std::ssize(measured.front().has);
  std::vector<double> rows;
  for (size_t k = 0; k < measured.size(); k += 2) {
    for (const double number : measured[k].has) rows.push_back(number / measured[k].milliseconds);
  }
  const at::Tensor left = at::tensor(rows, at::kDouble).view({-1, columns});
  const at::Tensor factors = std::get<0>(at::linalg_lstsq(left, at::ones({left.size(0), 1}, at::kDouble)));
  return {factors.data_ptr<double>(), factors.data_ptr<double>() + columns};
}

// Prints the errors of the steps that were not fitted.
void print_errors(const char* name, const std::vector<MeasuredStep>& measured) {
  const std::vector<double> factors = fitted(measured);
  std::vector<double> errors;
  for (size_t k = 1; k < measured.size(); k += 2) {
    double predicted = 0;
    for (size_t i = 0; i < factors.size(); ++i) predicted += factors[i] * measured[k].has[i];
    errors.push_back(std::abs(predicted / measured[k].milliseconds - 1));
  }
  std::ranges::sort(errors);
  const auto share = [&](double part) {
    return 100 * errors[static_cast<size_t>(part * static_cast<double>(errors.size()))];
  };
  fmt::print("{}: half of the errors below {:.1f}%, nine of ten below {:.1f}%; factors", name, share(0.5), share(0.9));
  for (const double factor : factors) fmt::print(" {:.4g}", factor);
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace terrace;
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_gnn_step_costs CONFIG [section.key=value...]\n");
    return 2;
  }
  const config::Config config =
      config::load(argv[1], models::families(), std::vector<std::string>(argv + 2, argv + argc));
  train::prepare_machine(train::choose_threads(config.train.threads));
  train::Trainer trainer(config, train::Peak{});
  const data::GraphsRequest request = models::gnn::graphs_request(models::gnn::model_of(config));
  const data::GraphsSource source(models::gnn::data_of(config), request, config.train.seed);
  const auto batch = static_cast<uint64_t>(config.train.global_batch);
  std::vector<MeasuredStep> by_cost, by_sizes;
  double fastest = 0, slowest = 0;
  for (uint64_t step = 0; step < warm_up + steps; ++step) {
    double atoms = 0, edges = 0;
    for (uint64_t sample = step * batch; sample < (step + 1) * batch; ++sample) {
      const data::GraphsSource::Place place = source.training_place(sample);
      atoms += static_cast<double>(source.dataset(place.dataset).atoms_of(place.structure));
      edges += static_cast<double>(source.edges_of(place));
    }
    const auto began = std::chrono::steady_clock::now();
    trainer.step();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
    if (step < warm_up) continue;
    const double graphs = static_cast<double>(batch);
    by_cost.push_back({{1, request.cost.graph * graphs + request.cost.atom * atoms + request.cost.edge * edges}, ms});
    by_sizes.push_back({{1, atoms, edges}, ms});  // each step has as many graphs
    fastest = by_cost.size() == 1 ? ms : std::min(fastest, ms);
    slowest = std::max(slowest, ms);
  }
  fmt::print("steps of {:.1f} to {:.1f} ms; cost of an atom over that of an edge {:.2f}\n", fastest, slowest,
             request.cost.atom / request.cost.edge);
  print_errors("by the cost", by_cost);
  print_errors("by factors of atoms and edges", by_sizes);
  return 0;
}
