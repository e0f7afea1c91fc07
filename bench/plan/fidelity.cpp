// Compares predicted step times with published ones:
//
//   bench_plan_fidelity [--folder bench/plan/data] [--rows] [--errors machines/published_errors.json]
//
// --errors writes the errors by kind of layout, from which `terrace plan` takes the interval of a step.
//
// The constants of machines/dgx-a100-80gb.toml and the launches of machines/software/megatron.toml were fitted on the
// runs of one node (bench_plan_fit), the latter's pause between passes on the pipelines of the zero-bubble study. The
// other runs of several nodes are the test, on which nothing was fitted.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "bench/plan/published.h"
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/config/family.h"
#include "terrace/plan/prediction.h"
#include "terrace/plan/report/published_errors.h"

namespace {

using namespace terrace;

struct Compared {
  bench::PublishedRun run;
  double predicted = 0;

  plan::ComparedRun of_kind = {};
  bool fits = true;  // the devices' memory

  double error() const { return std::abs(predicted / run.seconds - 1); }
};

// The position of each value in ascending order.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<double>(i);
  return ranks;
}

// Spearman's rank correlation.
double rank_correlation(const std::vector<Compared>& runs) {
  std::vector<double> measured, predicted;
  for (const Compared& one : runs) {
    measured.push_back(one.run.seconds);
    predicted.push_back(one.predicted);
  }
  const std::vector<double> a = ranks_of(measured), b = ranks_of(predicted);
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  const auto n = static_cast<double>(a.size());
  return 1 - 6 * squares / (n * (n * n - 1));
}

// The share by which the run that is predicted to be the fastest takes longer than the fastest one.
double cost_of_choice(const std::vector<Compared>& runs) {
  const auto measured = [](const Compared& one) { return one.run.seconds; };
  return std::ranges::min_element(runs, {}, &Compared::predicted)->run.seconds /
             std::ranges::min_element(runs, {}, measured)->run.seconds -
         1;
}

double mean_error(const std::vector<Compared>& runs) {
  double sum = 0;
  for (const Compared& one : runs) sum += one.error();
  return sum / static_cast<double>(runs.size());
}

void print_table(const char* title, const std::vector<Compared>& runs) {
  std::map<int64_t, std::vector<Compared>> by_width;
  for (const Compared& one : runs) by_width[one.run.width].push_back(one);
  fmt::print("{}\n\n| model | runs | mean absolute error | rank correlation | chosen layout costs |\n", title);
  fmt::print("| --- | --- | --- | --- | --- |\n");
  const auto row = [](const std::string& name, const std::vector<Compared>& of, double correlation, double cost) {
    fmt::print("| {} | {} | {:.1f}% | {:.2f} | {:.1f}% |\n", name, of.size(), 100 * mean_error(of), correlation,
               100 * cost);
  };
  double correlations = 0, costs = 0;
  for (const auto& [width, of] : by_width) {
    row(of.front().run.model, of, rank_correlation(of), cost_of_choice(of));
    correlations += rank_correlation(of);
    costs += cost_of_choice(of);
  }
  const auto models = static_cast<double>(by_width.size());
  row("all; mean of the models", runs, correlations / models, costs / models);
  fmt::print("\n");
}

// A row for each run, which are of different models.
void print_runs(const char* title, const std::vector<Compared>& runs) {
  fmt::print("{}\n\n| model | devices | tensor | pipeline | chunks | measured s | predicted s | error |\n", title);
  fmt::print("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  double worst = 0;
  for (const Compared& one : runs) {
    const bench::PublishedRun& run = one.run;
    fmt::print("| {} | {} | {} | {} | {} | {:.2f} | {:.2f} | {:+.1f}% |\n", run.model, run.devices, run.tensor,
               run.pipeline, run.chunks, run.seconds, one.predicted, 100 * (one.predicted / run.seconds - 1));
    worst = std::max(worst, one.error());
  }
  fmt::print("\nmean absolute error {:.1f}%, worst {:.1f}%\n\n", 100 * mean_error(runs), 100 * worst);
}

// Divides runs into those that take one forward and one backward in turn, and interleaved ones.
std::pair<std::vector<Compared>, std::vector<Compared>> by_chunks(const std::vector<Compared>& runs) {
  std::pair<std::vector<Compared>, std::vector<Compared>> parts;
  for (const Compared& one : runs) (one.run.chunks == 1 ? parts.first : parts.second).push_back(one);
  return parts;
}

void print_rows(const std::vector<Compared>& runs) {
  for (const Compared& one : runs) {
    fmt::print(
        "{} tensor {} pipeline {} data {} micro-batch {} of {}: {:.2f} s measured, {:.2f} predicted ({:+.1f}%)\n",
        one.run.model, one.run.tensor, one.run.pipeline, one.run.data, one.run.micro_batch, one.run.global_batch,
        one.run.seconds, one.predicted, 100 * (one.predicted / one.run.seconds - 1));
  }
}

std::vector<Compared> compare(const std::vector<bench::PublishedRun>& runs, const plan::Target& on) {
  std::vector<Compared> compared;
  for (const bench::PublishedRun& run : runs) {
    plan::Target target = on;
    target.devices = run.devices;
    const config::Config config = bench::config_of(run);
    const plan::Prediction prediction = plan::predict(config, target);
    bench::PublishedRun published = run;
    if (run.flops_rate > 0) {
      published.seconds = prediction.model_flops / run.flops_rate / static_cast<double>(run.devices);
    }
    compared.push_back({.run = published,
                        .predicted = prediction.step_seconds,
                        .of_kind = {.kind = plan::layout_kind(config, target),
                                    .family = config.family->name,
                                    .machine = target.machine.name,
                                    .program = target.software.name,
                                    .devices = run.devices,
                                    .parameters = prediction.parameters,
                                    .error = prediction.step_seconds / published.seconds - 1},
                        .fits = prediction.feasible()});
  }
  return compared;
}

// Prints the runs on MI250X, each predicted with its program and with the libraries of its time.
std::vector<Compared> print_mi250x(const std::string& folder) {
  std::vector<Compared> all;
  fmt::print(
      "MI250X: the achievable rates were fitted to F22-log and LUMI-7B-16, multi_node_bandwidth to F175-log\n\n"
      "| run | machine | software | measured s | predicted s | error |\n| --- | --- | --- | --- | --- | --- |\n");
  std::vector<double> errors;
  for (const bench::PublishedRun& run : bench::read_mi250x(folder + "/frontier_mi250x_points.csv")) {
    if (!run.missing.empty()) {
      fmt::print("| {} | {} | {} | | | {} |\n", run.name, run.machine, run.software, run.missing);
      continue;
    }
    const plan::Target target{.machine = machine::load(run.machine), .software = machine::load_software(run.software)};
    const Compared one = compare({run}, target).front();
    fmt::print("| {} | {} | {} | {:.2f} | {:.2f} | {:+.1f}% |\n", run.name, run.machine, run.software, run.seconds,
               one.predicted, 100 * (one.predicted / run.seconds - 1));
    errors.push_back(one.error());
    all.push_back(one);
  }
  std::ranges::sort(errors);
  fmt::print("\nmedian {:.1f}%, worst {:.1f}%\n", 100 * errors[errors.size() / 2], 100 * errors.back());
  return all;
}

// Prints the runs on H100, each predicted with its program. The fastest by prediction counts of what is not published,
// since such tables have tuned runs.
std::vector<Compared> print_h100(const std::string& folder) {
  std::vector<Compared> all;
  fmt::print(
      "\nH100: achievable_together was fitted to MC-177B-2304 for dgx-h100 and to Titan-8B-8 for grand-teton-500w\n\n"
      "| run | machine | software | micro-batch, chunks | measured s | predicted s | error |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const std::vector<bench::PublishedRun>& likely : bench::read_h100(folder + "/h100.csv")) {
    const bench::PublishedRun& first = likely.front();
    const plan::Target target{.machine = machine::load(first.machine),
                              .software = machine::load_software(first.software)};
    const std::vector<Compared> runs = compare(likely, target);
    const Compared& one = *std::ranges::min_element(runs, {}, [](const Compared& run) {
      return std::pair{!run.fits, run.predicted};
    });
    fmt::print("| {} | {} | {} | {}, {}{} | {:.2f} | {:.2f} | {:+.1f}% |\n", one.run.name, one.run.machine,
               one.run.software, one.run.micro_batch, one.run.chunks, one.fits ? "" : " (too much memory)",
               one.run.seconds, one.predicted, 100 * (one.predicted / one.run.seconds - 1));
    all.push_back(one);
  }
  fmt::print("\nmean absolute error {:.1f}%\n", 100 * mean_error(all));
  return all;
}

void print_kinds(const std::vector<plan::PublishedErrors>& kinds) {
  fmt::print(
      "\nBy kind of layout: the 5th and 95th percentile of the errors, of fewer than 40 runs the extremes\n\n"
      "| kind | runs | errors | devices up to | parameters | machines | programs |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const plan::PublishedErrors& one : kinds) {
    fmt::print("| {} | {} | {:+.1f}% to {:+.1f}% | {} | {:.2g}B to {:.3g}B | {} | {} |\n", one.kind, one.runs,
               100 * one.lowest, 100 * one.highest, one.most_devices, static_cast<double>(one.fewest_parameters) / 1e9,
               static_cast<double>(one.most_parameters) / 1e9, fmt::join(one.machines, ", "),
               fmt::join(one.programs, ", "));
  }
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Compares predicted step times with published ones");
  std::string folder = "bench/plan/data", machine = "dgx-a100-80gb", software = "megatron", errors;
  bool rows = false;
  app.add_option("--folder", folder, "Folder of the published tables");
  app.add_option("--machine", machine, "Description of the A100 nodes");
  app.add_option("--software", software, "Description of the program on them");
  app.add_option("--errors", errors, "File for the errors by kind of layout, as JSON");
  app.add_flag("--rows", rows, "Print every run of the test");
  CLI11_PARSE(app, argc, argv);
  plan::Target target{.machine = machine::load(machine), .software = machine::load_software(software)};
  const std::vector<Compared> fitted = compare(bench::read_vtrain(folder + "/vtrain_a100_single.csv"), target);
  print_table("One node of 8 A100, composed of measured parts: launches were fitted here", fitted);
  // That cluster had 800 Gb/s a node: four links of 200 Gb/s for eight GPUs, where a DGX A100 has eight.
  target.machine.tiers.back().devices_per_link = 2;
  const std::vector<Compared> test = compare(bench::read_vtrain(folder + "/vtrain_a100_multi.csv"), target);
  print_table("64 to 512 A100: the test", test);
  target.machine = machine::load(machine);
  const std::vector<Compared> sc21 = compare(bench::read_sc21(folder + "/sc21_a100.csv"), target);
  print_runs("Megatron-LM's authors on 32 to 3,072 A100: the test", sc21);
  const std::vector<Compared> pipelines =
      compare(bench::read_zero_bubble(folder + "/zero_bubble_1f1b_a100.csv"), target);
  const auto [in_turn, interleaved] = by_chunks(pipelines);
  print_table("Pipelines of 8 to 32 stages, one forward and one backward in turn: pause_between_passes was fitted here",
              in_turn);
  print_table("The same, interleaved: fitted here too", interleaved);
  const std::vector<Compared> mi250x = print_mi250x(folder);
  const std::vector<Compared> h100 = print_h100(folder);
  std::vector<plan::ComparedRun> runs;
  for (const std::vector<Compared>* part : {&fitted, &test, &sc21, &pipelines, &mi250x, &h100}) {
    for (const Compared& one : *part) runs.push_back(one.of_kind);
  }
  const std::vector<plan::PublishedErrors> kinds = plan::summarize(runs);
  print_kinds(kinds);
  if (!errors.empty()) write_text_atomically(errors, plan::json_of(kinds).dump(2) + "\n");
  if (rows) {
    for (const std::vector<Compared>* part : {&test, &sc21, &pipelines}) print_rows(*part);
  }
} catch (const UserError& error) {
  fmt::print(stderr, "bench_plan_fidelity: {}\n", error.what());
  return 2;
}
