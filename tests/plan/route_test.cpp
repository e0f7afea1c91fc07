// The choice between one call and rails for movements among several nodes, and what each sends and takes.
#include "terrace/plan/time/route.h"

#include <gtest/gtest.h>

#include "terrace/models/gpt/planned_gpt.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/plan/prediction.h"
#include "terrace/plan/time/movement_time.h"
#include "terrace/plan/time/simulated_step.h"

namespace terrace::plan {
namespace {

using config::Routing;
using schedule::Hop;
using schedule::Movement;

config::Config on_frontier(int64_t devices, config::Sharding sharding, Routing route, int64_t width = 1792) {
  config::Config config = config::config_of(models::gpt::planned_family());
  models::gpt::model_of(config) = {.layers = 24, .width = width, .heads = 14, .sequence = 2048, .vocabulary = 50304};
  models::gpt::derive(models::gpt::model_of(config));
  config.train.global_batch = devices;
  config.train.micro_batch = 1;
  config.train.precision = config::Precision::bf16;
  config.layout.sharding = sharding;
  config.layout.route = route;
  return config;
}

Target frontier_target(int64_t devices) {
  return {.machine = machine::load("frontier"), .software = machine::load_software("terrace"), .devices = devices};
}

MovementTime time_of(const PlannedRun& run, const machine::Machine& machine, Movement movement, Hop hop,
                     int64_t elements) {
  const std::vector<Algorithm> ring = {Algorithm::ring};
  return MovementTimes(run.config, run.mesh, run.sizes, machine, ring).of(movement, hop, elements);
}

// 64 MiB of weights in bf16: the latencies of a ring grow with the ranks, those of two hops with the nodes.
TEST(Rails, ShortenGathersOfManyRanks) {
  double last = 1;
  for (const int64_t devices : {512, 2048}) {
    const Target target = frontier_target(devices);
    const auto seconds = [&](Routing route) {
      const PlannedRun run = planned_run(on_frontier(devices, config::Sharding::zero3, route), target);
      double sum = 0;
      for (const Hop hop : schedule::movements_of(run.sizes, false).hops(Movement::gather_weights)) {
        sum += time_of(run, target.machine, Movement::gather_weights, hop, int64_t{32} << 20).seconds;
      }
      return sum;
    };
    const double ratio = seconds(Routing::flat) / seconds(Routing::rails);
    EXPECT_GT(ratio, 1.1 * last) << devices;
    last = ratio;
  }
}

// Four ranks of each node gather the same half of the weights. By rails a node receives them once.
TEST(Rails, BringTheUpdateOfThreeLevelsToEachNodeOnce) {
  const int64_t devices = 64, nodes = devices / 8, elements = int64_t{1} << 20;
  const Target target = frontier_target(devices);
  const PlannedRun run = planned_run(on_frontier(devices, config::Sharding::three_level, Routing::rails), target);
  const MovementTime between = time_of(run, target.machine, Movement::publish, Hop::rails, elements);
  EXPECT_DOUBLE_EQ(8 * between.bytes, 2.0 * static_cast<double>(elements * (nodes - 1)) / static_cast<double>(nodes));
  const MovementTime inside = time_of(run, target.machine, Movement::publish, Hop::node, elements);
  EXPECT_DOUBLE_EQ(inside.bytes, 2.0 * static_cast<double>(elements) / 2 * 3 / 4);
}

// Bytes that enter a node in a step. A ring of zero3 passes the whole tensor into each node once, whatever its ranks
// are; by rails, and in the reduction of three levels among one rank of each node, each of the eight receives its own.
double node_bytes(const config::Config& config, const Target& target) {
  const PlannedRun run = planned_run(config, target);
  const SimulatedStep step(run, target);
  const bool rings = run.config.layout.route == Routing::flat;
  double sum = 0;
  for (const schedule::StepInstruction& one : step.lists.front()) {
    if (one.kind != schedule::StepInstruction::Kind::begin_movement) continue;
    if (rings) sum += step.costs.bytes(0, one);
    if (one.hop == Hop::rails || (!rings && one.movement == Movement::reduce_across)) {
      sum += 8 * step.costs.bytes(0, one);
    }
  }
  return sum;
}

TEST(ThreeLevels, QuantizedWiresSendAFewPercentOfZero3OverTheNetwork) {
  const int64_t devices = 64;
  const Target target = frontier_target(devices);
  config::Config zero3 = on_frontier(devices, config::Sharding::zero3, Routing::flat);
  zero3.train.global_batch = 4 * devices;
  config::Config quantized = zero3;
  quantized.layout.sharding = config::Sharding::three_level;
  quantized.layout.route = Routing::rails;
  quantized.layout.update_type = config::WireType::int8;
  quantized.layout.reduce_type = config::WireType::int4;
  EXPECT_LT(node_bytes(quantized, target) / node_bytes(zero3, target), 0.07);
}

// Where latency dominates, rails win; where bandwidth does, one call moves fewer bytes inside the nodes.
TEST(AutoRoute, RailsForSmallMessagesAmongManyRanks) {
  const auto chosen = [](int64_t devices, int64_t width) {
    return planned_run(on_frontier(devices, config::Sharding::zero3, Routing::automatic, width),
                       frontier_target(devices))
        .config.layout.route;
  };
  EXPECT_EQ(chosen(2048, 896), Routing::rails);
  EXPECT_EQ(chosen(16, 7168), Routing::flat);
}

// Hidden or not, the chosen route's step is not much longer than that of the other.
TEST(AutoRoute, MakesNoStepMuchLonger) {
  for (const config::Sharding sharding : {config::Sharding::zero1, config::Sharding::zero3}) {
    for (const int64_t devices : {16, 512, 2048}) {
      for (const int64_t width : {896, 1792, 7168}) {
        const Target target = frontier_target(devices);
        const auto seconds = [&](Routing route) {
          return SimulatedStep(planned_run(on_frontier(devices, sharding, route, width), target), target)
              .simulation.seconds;
        };
        const double fastest = std::min(seconds(Routing::rails), seconds(Routing::flat));
        EXPECT_LE(seconds(Routing::automatic), 1.05 * fastest) << devices << " " << width;
      }
    }
  }
}

// Between nodes 64 dies in a rail take 6 steps instead of 63, and as long for the bytes. Each choice is the faster one.
TEST(RailsGather, DoublingTakesTheLogarithmOfTheSteps) {
  const int64_t devices = 512, elements = int64_t{32} << 20;
  const Target target = frontier_target(devices);
  config::Config config = on_frontier(devices, config::Sharding::zero3, Routing::rails);
  const auto seconds = [&](config::RailsGather gather) {
    config.layout.rails_gather = gather;
    const PlannedRun run = planned_run(config, target);
    return time_of(run, target.machine, Movement::gather_weights, Hop::rails, elements).seconds;
  };
  // All dies lie in one group of nodes, whose latency is 22 us.
  EXPECT_NEAR(seconds(config::RailsGather::library) - seconds(config::RailsGather::doubling), (63 - 6) * 22e-6, 1e-9);
  EXPECT_EQ(seconds(config::RailsGather::automatic), seconds(config::RailsGather::doubling));
  config.layout.rails_gather = config::RailsGather::library;
  EXPECT_EQ(planned_run(config, target).config.layout.rails_gather, config::RailsGather::library);
}

// The milliseconds in docs/low_bandwidth.md, which a separate computation of the formulas gave.
TEST(RailsGather, TimesOnFrontierEqualTheDocument) {
  struct Row {
    int64_t devices;
    double flat, library, doubling, inside;
  };
  for (const Row& row :
       {Row{512, 2.87, 2.16, 0.91, 0.48}, Row{1024, 4.95, 3.58, 0.94, 0.48}, Row{2048, 9.11, 6.40, 1.27, 0.48}}) {
    SCOPED_TRACE(row.devices);
    const Target target = frontier_target(row.devices);
    const auto milliseconds = [&](Routing route, config::RailsGather gather, Hop hop) {
      config::Config config = on_frontier(row.devices, config::Sharding::zero3, route);
      config.layout.rails_gather = gather;
      const PlannedRun run = planned_run(config, target);
      return 1e3 * time_of(run, target.machine, Movement::gather_weights, hop, int64_t{32} << 20).seconds;
    };
    using config::RailsGather;
    EXPECT_NEAR(milliseconds(Routing::flat, RailsGather::automatic, Hop::whole), row.flat, 0.005);
    EXPECT_NEAR(milliseconds(Routing::rails, RailsGather::library, Hop::rails), row.library, 0.005);
    EXPECT_NEAR(milliseconds(Routing::rails, RailsGather::doubling, Hop::rails), row.doubling, 0.005);
    EXPECT_NEAR(milliseconds(Routing::rails, RailsGather::doubling, Hop::node), row.inside, 0.005);
  }
}

TEST(RailsGather, LeftToTheLibraryWhereThatIsAsFast) {
  config::Config config = on_frontier(16, config::Sharding::zero3, Routing::rails);
  // Two nodes need one step either way.
  EXPECT_EQ(planned_run(config, frontier_target(16)).config.layout.rails_gather, config::RailsGather::library);
  // Without rails there is nothing to choose.
  config.layout.route = Routing::flat;
  EXPECT_EQ(planned_run(config, frontier_target(16)).config.layout.rails_gather, config::RailsGather::automatic);
}

TEST(AutoRoute, FlatOnOneNodeAndForSoftwareWithoutRails) {
  const Target node = frontier_target(8);
  EXPECT_EQ(planned_run(on_frontier(8, config::Sharding::zero3, Routing::automatic), node).config.layout.route,
            Routing::flat);
  Target megatron = frontier_target(512);
  megatron.software = machine::load_software("megatron");
  EXPECT_EQ(planned_run(on_frontier(512, config::Sharding::zero3, Routing::automatic), megatron).config.layout.route,
            Routing::flat);
}

}  // namespace
}  // namespace terrace::plan
