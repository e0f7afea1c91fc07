// Measures how fast steps are simulated: one of a 1T model with 64 stages and 1,336 micro-batches, and layouts of a
// 175B model with 16 stages and 64 micro-batches on every core, by chunks and by complete lists. The processor time
// that one takes does not depend on what else the machine does. Usage: bench_plan_simulation_rate [SECONDS]
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <thread>
#include <vector>

#include "terrace/schedule/pipeline/pipeline_times.h"
#include "terrace/schedule/step/step_times.h"

namespace {

using namespace terrace::schedule;
using terrace::config::PipelineSchedule;
using Clock = std::chrono::steady_clock;
using StepKind = StepInstruction::Kind;

// The processor time of all threads.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_since(Clock::time_point when) { return std::chrono::duration<double>(Clock::now() - when).count(); }

// Takes results, so that the compiler does not leave out their computation.
std::atomic<double> kept = 0;

// Equal layers, whose backward takes three forwards with recompute.
constexpr double layer_forward = 1e-3, send = 1e-4;

PipelineCosts chunk_costs(const Pipeline& pipeline, int64_t layers) {
  const auto forward = layer_forward * static_cast<double>(layers);
  const StageChunkCosts chunk{.forward = forward,
                              .input_gradient = 2 * forward,
                              .weight_gradient = forward,
                              .send_activation = send,
                              .send_gradient = send};
  return {.chunks = std::vector<StageChunkCosts>(static_cast<size_t>(pipeline.stages * pipeline.chunks), chunk)};
}

StepCosts step_costs() {
  return {.seconds = [](int64_t, const StepInstruction& one) -> double {
            switch (one.kind) {
              case StepKind::forward:
              case StepKind::weight_gradient:
                return layer_forward;
              case StepKind::input_gradient:
                return 2 * layer_forward;
              case StepKind::backward:
                return 3 * layer_forward;
              case StepKind::send_activation:
              case StepKind::send_gradient:
              case StepKind::begin_movement:
                return send;
              default:
                return 0;
            }
          },
          .link = [](int64_t, const StepInstruction& one) -> int64_t {
            return one.kind == StepKind::begin_movement ? 1 : 0;
          },
          .num_links = 2};
}

// The complete lists, with the movements of data-parallel groups of these sizes.
std::vector<StepInstructions> step_lists(const Pipeline& pipeline, int64_t layers,
                                         const terrace::mesh::ShardSizes& sizes) {
  const Placement placed = placement(pipeline);
  const auto lists = instructions(pipeline);
  std::vector<StepInstructions> steps;
  for (int64_t stage = 0; stage < pipeline.stages; ++stage) {
    StageSegments segments{
        .chunks = {}, .last = placed.virtual_stages() * layers, .reads = {}, .held = {}, .copies = {}};
    for (int64_t segment = 0; segment <= segments.last; ++segment) segments.reads.push_back({segment});
    for (int64_t chunk = 0; chunk < pipeline.chunks; ++chunk) {
      std::vector<int64_t>& own = segments.chunks.emplace_back();
      for (int64_t k = 0; k < layers; ++k) own.push_back(placed.virtual_stage(stage, chunk) * layers + k);
      segments.held.insert(segments.held.end(), own.begin(), own.end());
    }
    steps.push_back(
        training_step(lists[static_cast<size_t>(stage)], pipeline.micro_batches, segments, movements_of(sizes, false)));
  }
  return steps;
}

template <typename Work>
void print_time(std::string_view what, const Work& work) {
  const auto began = Clock::now();
  const double computed = processor_seconds();
  work();
  fmt::print("  {:36} {:8.3f} s {:8.3f} s of processor time\n", what, seconds_since(began),
             processor_seconds() - computed);
}

// Prints how often all cores together do the work in a second.
template <typename Work>
void print_rate(std::string_view what, double seconds, const Work& work) {
  std::atomic<int64_t> count = 0;
  const auto began = Clock::now();
  const double computed = processor_seconds();
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (; seconds_since(began) < seconds; ++count) work();
    });
  }
  threads.clear();
  const auto done = static_cast<double>(count);
  fmt::print("  {:36} {:8.0f} a second {:8.3f} ms of processor time each\n", what, done / seconds_since(began),
             1e3 * (processor_seconds() - computed) / done);
}

void print_1t() {
  const Pipeline pipeline{PipelineSchedule::one_f_one_b, 64, 1336, 1};
  constexpr int64_t layers = 2;
  fmt::print("1T: 64 stages of {} layers, 1,336 micro-batches, one core\n", layers);
  print_time("by chunks, making lists included",
             [&] { kept = simulate_pipeline(PipelineOrder(pipeline), chunk_costs(pipeline, layers)).seconds; });
  const PipelineOrder order(pipeline);
  print_time("by chunks", [&] { kept = simulate_pipeline(order, chunk_costs(pipeline, layers)).seconds; });
  std::vector<StepInstructions> lists;
  print_time("making complete lists of ZeRO-1",
             [&] { lists = step_lists(pipeline, layers, {.optimizer = 6, .ranks = 6}); });
  print_time("by complete lists", [&] { kept = simulate_step(lists, step_costs()).seconds; });
}

void print_175b(double seconds) {
  fmt::print("175B: 16 stages of 6 layers, 64 micro-batches, {} cores\n", std::thread::hardware_concurrency());
  const Pipeline pipeline{PipelineSchedule::one_f_one_b, 16, 64, 1};
  const auto print_by_chunks = [&](std::string_view what, const Pipeline& of, int64_t layers) {
    const PipelineOrder order(of);
    print_rate(what, seconds, [&] { kept = simulate_pipeline(order, chunk_costs(of, layers)).seconds; });
  };
  const auto print_complete = [&](std::string_view what, const terrace::mesh::ShardSizes& sizes) {
    print_rate(what, seconds, [&] { kept = simulate_step(step_lists(pipeline, 6, sizes), step_costs()).seconds; });
  };
  print_by_chunks("by chunks", pipeline, 6);
  print_by_chunks("by chunks, 3 chunks a stage", {PipelineSchedule::interleaved, 16, 64, 3}, 2);
  print_by_chunks("by chunks, zb-v", {PipelineSchedule::zb_v, 16, 64, 2}, 3);
  print_rate("by chunks, making lists included", seconds,
             [&] { kept = simulate_pipeline(PipelineOrder(pipeline), chunk_costs(pipeline, 6)).seconds; });
  print_complete("complete lists of ZeRO-1, made too", {.optimizer = 2, .ranks = 2});
  print_complete("complete lists of ZeRO-3, made too", {.weights = 2, .gradients = 2, .optimizer = 2, .ranks = 2});
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 2;
  print_1t();
  print_175b(seconds);
  return 0;
}
