// Compares predictions with closed forms on a machine with round figures.
#include "terrace/plan/prediction.h"

#include <gtest/gtest.h>

#include <utility>

#include "terrace/base/error.h"
#include "terrace/plan/estimate.h"
#include "terrace/plan/layouts/best.h"
#include "terrace/plan/planned_run.h"
#include "tests/models/gpt_formulas.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

using models::gpt::model_of;

config::Config four_layers() { return small_gpt(4); }

Target on_devices(int64_t devices) { return {.machine = small_machine(), .software = {}, .devices = devices}; }

// The elements of all segments together.
int64_t elements_of_all_segments(const PlannedRun& run) {
  int64_t sum = 0;
  for (size_t number = 0; number < run.partition().segments.size(); ++number) {
    sum += run.padded_elements(static_cast<int64_t>(number));
  }
  return sum;
}

// The update reads and writes 28 bytes of an fp32 element, the norm before it reads the gradient's 4.
constexpr double with_norm = 32.0 / 28;

double computation(const Prediction& prediction) {
  double sum = 0;
  for (const StagePrediction& stage : prediction.stages) sum += stage.computation.total();
  return sum;
}

TEST(Prediction, OneDeviceTakesItsComputationAndUpdate) {
  const Prediction prediction = predict(four_layers(), on_devices(1));
  EXPECT_NEAR(prediction.step_seconds, computation(prediction) + with_norm * prediction.stages[0].update_seconds,
              1e-9 * prediction.step_seconds);
  EXPECT_EQ(prediction.bubble_share, 0);
  EXPECT_TRUE(prediction.feasible());
  EXPECT_TRUE(prediction.stages[0].exposed.empty());
  // fp32: the update reads gradient, weight and moments, and writes weight and moments: 28 bytes at 100 bytes/s.
  EXPECT_DOUBLE_EQ(prediction.stages[0].update_seconds, 0.28 * static_cast<double>(prediction.parameters));
}

TEST(Prediction, CountsTheFlopsOfThePapers) {
  config::Config config = four_layers();
  const double model = models::gpt::model_flops(model_of(config), 8, models::gpt::AttentionCount::full);
  for (const auto recompute : {config::Recompute::none, config::Recompute::selective, config::Recompute::full}) {
    config.train.recompute = recompute;
    const Prediction prediction = predict(config, on_devices(2));
    EXPECT_DOUBLE_EQ(prediction.model_flops, model);
    EXPECT_DOUBLE_EQ(prediction.hardware_flops,
                     models::gpt::hardware_flops(model_of(config), 8, models::gpt::AttentionCount::full, recompute));
    EXPECT_DOUBLE_EQ(prediction.mfu(), model / prediction.step_seconds / (2 * 2000.0));
    EXPECT_EQ(prediction.items, 8 * 16);
  }
}

// Gradients of two replicas are reduced while backward computes; a single device makes no calls.
TEST(Prediction, ComputesLongerBesideCallsWhereTheMachineSaysSo) {
  for (const int64_t devices : {1, 2}) {
    Target target = on_devices(devices);
    const Prediction alone = predict(four_layers(), target);
    target.machine.device.computing_beside_calls = 1.5;
    const Prediction slowed = predict(four_layers(), target);
    EXPECT_EQ(alone.stages[0].slowed_seconds, 0);
    EXPECT_EQ(slowed.stages[0].computation.total(), alone.stages[0].computation.total());
    if (devices == 1) {
      EXPECT_EQ(slowed.step_seconds, alone.step_seconds);
      continue;
    }
    EXPECT_GT(slowed.stages[0].slowed_seconds, 0);
    EXPECT_LE(slowed.step_seconds, alone.step_seconds + slowed.stages[0].slowed_seconds + 1e-9 * alone.step_seconds);
  }
}

// The simulated step would take forever.
TEST(Prediction, RefusesATypeForWhichTheMachineHasNoRates) {
  Target target = on_devices(1);
  target.machine.file = "ours.toml";
  target.machine.device.products[static_cast<size_t>(config::Precision::fp32)] = {};
  config::Config config = four_layers();
  const auto refusal = [](const auto& predicts) -> std::string {
    try {
      predicts();
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const std::string expected = "ours.toml has no [device.fp32]; add it, or set train.precision to bf16 or fp16";
  EXPECT_EQ(refusal([&] { predict(config, target); }), expected);
  EXPECT_EQ(refusal([&] { planned_run(config, target); }), expected);
  EXPECT_EQ(refusal([&] { best_layouts(config, target, {}); }), expected);
  config.train.precision = config::Precision::bf16;
  EXPECT_GT(predict(config, target).step_seconds, 0);
}

// The machine has 64 devices.
TEST(Prediction, NamesNumbersOfDevicesThatTheMachineHas) {
  const auto refusal = [](int64_t tensor, int64_t pipeline, int64_t devices) -> std::string {
    config::Config config = four_layers();
    config.layout.tensor = tensor;
    config.layout.pipeline = pipeline;
    try {
      planned_run(config, on_devices(devices));
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(6, 4, 8),
            "layout.tensor = 6 and pipeline = 4 cut the model over 24 devices, which do not divide --devices 8; use "
            "--devices 24");
  EXPECT_EQ(refusal(6, 4, 32),
            "layout.tensor = 6 and pipeline = 4 cut the model over 24 devices, which do not divide --devices 32; use "
            "--devices 24 or 48");
  EXPECT_EQ(refusal(6, 4, 64),
            "layout.tensor = 6 and pipeline = 4 cut the model over 24 devices, which do not divide --devices 64; use "
            "--devices 48");
  EXPECT_EQ(refusal(24, 4, 8),
            "layout.tensor = 24 and pipeline = 4 cut the model over 96 devices, but small has 64; lower one of them, "
            "or name a larger machine");
  EXPECT_EQ(refusal(2, 4, 8), "");
}

// A single micro-batch passes through all stages, one after the other, and back.
TEST(Prediction, OneMicroBatchTakesTheSumOfStagesAndTransfers) {
  config::Config config = four_layers();
  config.train.global_batch = 1;
  config.layout.pipeline = 4;
  config.layout.stage_layers = {1, 1, 1, 1};
  model_of(config).tied_head = false;  // so that no gradients are summed between stages
  const Prediction prediction = predict(config, on_devices(4));
  double update = 0;
  for (const StagePrediction& stage : prediction.stages) update = std::max(update, stage.update_seconds);
  // Hidden states of 16 x 24 fp32 numbers: three times forward and back over links of 10 bytes/s.
  const double transfers = 6 * 16 * 24 * 4 / 10.0;
  EXPECT_NEAR(prediction.step_seconds, computation(prediction) + transfers + with_norm * update,
              1e-9 * prediction.step_seconds);
}

// Four stages and one micro-batch: four forwards and four backwards, and three sends each way.
TEST(Prediction, PausesBeforeEachPassAndSendsAtTheRateOfTheProgram) {
  config::Config config = four_layers();
  config.train.global_batch = 1;
  config.layout.pipeline = 4;
  config.layout.stage_layers = {1, 1, 1, 1};
  Target target = on_devices(4);
  for (const bool meanwhile : {false, true}) {
    target.software = {};
    target.software.sends_while_computing = meanwhile;
    const Prediction plain = predict(config, target);
    target.software.pause_seconds = 3;
    const Prediction pausing = predict(config, target);
    EXPECT_NEAR(pausing.step_seconds - plain.step_seconds, 8 * 3, 1e-9 * plain.step_seconds);
    EXPECT_NEAR(computation(pausing) - computation(plain), 8 * 3, 1e-9 * plain.step_seconds);
    target.software.pause_seconds = 0;
    // Transfers of 16 x 24 fp32 numbers go over links of 10 bytes/s.
    target.software.send_bandwidth = 4;
    EXPECT_NEAR(predict(config, target).step_seconds - plain.step_seconds, 6 * 16 * 24 * 4 * (1 / 4.0 - 1 / 10.0),
                1e-9 * plain.step_seconds);
    target.software.send_bandwidth = 40;
    EXPECT_DOUBLE_EQ(predict(config, target).step_seconds, plain.step_seconds);
  }
}

// Two chunks of each stage and two micro-batches: eight passes of each stage, of which no two overlap on it.
TEST(Prediction, PausesBeforeThePassesOfEachChunk) {
  config::Config config = four_layers();
  config.train.global_batch = 2;
  config.layout.pipeline = 2;
  config.layout.chunks = 2;
  config.layout.schedule = config::PipelineSchedule::interleaved;
  Target target = on_devices(2);
  const double plain = computation(predict(config, target));
  target.software.pause_seconds = 3;
  EXPECT_NEAR(computation(predict(config, target)) - plain, 2 * 8 * 3, 1e-9 * plain);
}

// The seconds of a step that coding takes at 1000, 500 (at random) and 2000 bytes/s, where links and memory take no
// time.
double coding_seconds(const config::Config& config, int64_t devices) {
  Target target{.machine = computing_machine(), .software = {}, .devices = devices};
  const double without = predict(config, target).step_seconds;
  target.machine.device.encode = 1000;
  target.machine.device.encode_at_random = 500;
  target.machine.device.decode = 2000;
  return predict(config, target).step_seconds - without;
}

// Values of a step's reductions, and of its gathers: the last segment is gathered once for forward and backward.
std::pair<double, double> moved_values(const PlannedRun& run) {
  double all = 0;
  for (const int64_t segment : run.chunk(0, 0)) all += static_cast<double>(run.padded_elements(segment));
  return {all, 2 * all - static_cast<double>(run.padded_elements(run.chunk(0, 0).back()))};
}

// Two ranks, with links and memory that take no time. A gather of N values encodes a half of them to nearest and
// decodes all, a reduction encodes and decodes all.
TEST(Prediction, CountsTheCodingOfQuantizedMovements) {
  config::Config config = four_layers();
  config.train.global_batch = 2;
  config.layout.sharding = config::Sharding::zero3;
  config.layout.gather_type = config::WireType::int8;
  config.layout.reduce_type = config::WireType::int4;
  model_of(config).tied_head = false;
  const auto [all, gathered] = moved_values(PlannedRun(config, 2, 2));
  const double expected = 4 * (gathered * (0.5 / 1000 + 1.0 / 2000) + all * (1.0 / 500 + 1.0 / 2000));
  EXPECT_NEAR(coding_seconds(config, 2), expected, 1e-9 * expected);
  // Error feedback rounds to nearest, and takes two decodings and an encoding more, of the errors and of a rank's own
  // payload.
  config.layout.error_feedback = true;
  const double with_feedback = 4 * (gathered * (0.5 / 1000 + 1.0 / 2000) + all * (2.0 / 1000 + 3.0 / 2000));
  EXPECT_NEAR(coding_seconds(config, 2), with_feedback, 1e-9 * with_feedback);
}

// Four ranks in two nodes: a gather between nodes encodes a quarter of N values and decodes two quarters, a reduction
// encodes and decodes the half that a rank has after the sums inside its node. With one node nothing is coded.
TEST(Prediction, CountsNoCodingInsideNodesWithATypeOfTheirOwn) {
  config::Config config = four_layers();
  config.train.global_batch = 4;
  config.layout.sharding = config::Sharding::zero3;
  config.layout.route = config::Routing::rails;
  config.layout.gather_type = config::WireType::int8;
  config.layout.reduce_type = config::WireType::int4;
  config.layout.node_type = config::NodeType::bf16;
  model_of(config).tied_head = false;
  const auto coding = [&](int64_t ranks_per_node) {
    config.layout.ranks_per_node = ranks_per_node;
    return coding_seconds(config, 4);
  };
  const auto [all, gathered] = moved_values(PlannedRun(config, 4, 2));
  const double expected = 4 * (gathered * (0.25 / 1000 + 0.5 / 2000) + all / 2 * (1.0 / 500 + 1.0 / 2000));
  EXPECT_NEAR(coding(2), expected, 1e-9 * expected);
  EXPECT_EQ(coding(4), 0);
}

// A machine whose links take no time, and whose memory reads or writes 1000 bytes in a second.
Target with_slow_memory(int64_t devices) {
  Target target{.machine = computing_machine(), .software = {}, .devices = devices};
  target.machine.device.memory_bandwidth = 1000;
  return target;
}

// 6 bytes of each value that is converted between fp32 and bf16. Of two ranks each converts its half of the weights and
// then all of them, and all gradients and then its half of the sums; of four in two nodes a quarter by rails as well,
// since the values stay in bf16 between the hops.
TEST(Prediction, CountsTheConversionsOfMovements) {
  config::Config config = four_layers();
  config.train.global_batch = 4;
  config.layout.sharding = config::Sharding::zero3;
  model_of(config).tied_head = false;
  const auto seconds = [&](config::WireType type, int64_t devices) {
    config.layout.gather_type = config.layout.reduce_type = type;
    return predict(config, with_slow_memory(devices)).step_seconds;
  };
  const auto converting = [&](int64_t devices) {
    return seconds(config::WireType::bf16, devices) - seconds(config::WireType::same, devices);
  };
  const auto moved = [&](int64_t devices) {
    const auto [all, gathered] = moved_values(PlannedRun(config, devices, 2));
    return all + gathered;
  };
  EXPECT_EQ(seconds(config::WireType::fp32, 2), seconds(config::WireType::same, 2));
  // Two micro-batches of each of two ranks, one of each of four.
  EXPECT_NEAR(converting(4), 1.25 * moved(4) * 6 / 1000, 1e-9 * converting(4));
  config.layout.route = config::Routing::rails;
  config.layout.ranks_per_node = 2;
  EXPECT_NEAR(converting(4), 1.25 * moved(4) * 6 / 1000, 1e-9 * converting(4));
  config.train.global_batch = 2;
  config.layout.route = config::Routing::automatic;
  config.layout.ranks_per_node = 0;
  EXPECT_NEAR(converting(2), 1.5 * moved(2) * 6 / 1000, 1e-9 * converting(2));
}

// Two ranks with two micro-batches each: the sums of the second one are added to those of the first, for which the half
// of a rank is read twice and written.
TEST(Prediction, CountsPassesOverCutGradients) {
  config::Config config = four_layers();
  config.train.global_batch = 4;
  const auto seconds = [&](config::Sharding sharding) {
    config.layout.sharding = sharding;
    return predict(config, with_slow_memory(2)).step_seconds;
  };
  const double passes = seconds(config::Sharding::zero2) - seconds(config::Sharding::zero1);
  const double all = moved_values(PlannedRun(config, 2, 2)).first;
  EXPECT_NEAR(passes, all * 3 * 4 / 2.0 / 1000, 1e-9 * passes);
}

// An int8 code for each element that a rank reduces, and four bytes for each 256 of them.
TEST(Prediction, CountsTheErrorsThatAreKept) {
  config::Config config = four_layers();
  config.train.global_batch = 8;
  config.layout.reduce_type = config::WireType::int4;
  config.layout.shard_gradients = config.layout.shard_optimizer = {config::ShardGroup::Word::number, 2};
  config.layout.shard_optimizer.number = 4;
  const Target target{.machine = computing_machine(), .software = {}, .devices = 8};
  EXPECT_EQ(predict(config, target).stages.front().memory.of(MemoryKind::feedback), 0);
  const StageMemory without = predict(config, target).stages.front().memory;
  config.layout.error_feedback = true;
  const PlannedRun run(config, 8, 8);
  double all = 0;
  for (const int64_t segment : run.chunk(0, 0)) all += static_cast<double>(run.padded_elements(segment));
  // Whole gradients to two ranks, halves of them to four, and quarters among the two replicas.
  const double expected = (all + all / 2 + all / 4) * (1 + 4.0 / 256);
  const StageMemory memory = predict(config, target).stages.front().memory;
  EXPECT_EQ(memory.of(MemoryKind::feedback), expected);
  // Encoding takes more memory for a while.
  const auto kept = [](const StageMemory& of) { return of.total() - of.of(MemoryKind::movements); };
  EXPECT_DOUBLE_EQ(kept(memory) - kept(without), expected);
  // All of them are saved.
  const Prediction prediction = predict(config, target);
  EXPECT_DOUBLE_EQ(checkpoint_estimate(prediction, target).bytes,
                   12 * static_cast<double>(prediction.parameters) + 8 * expected);
}

TEST(Prediction, ManyMicroBatchesHaveTheBubbleOfTheSchedule) {
  config::Config config = four_layers();
  config.layout.pipeline = 2;
  config.layout.stage_layers = {2, 2};
  config.train.global_batch = 64;
  model_of(config).tied_head = false;
  const Prediction few = predict(config, on_devices(2));
  config.train.global_batch = 512;
  const Prediction many = predict(config, on_devices(2));
  EXPECT_LT(many.bubble_share, few.bubble_share);
  // The slower stage works all the time but for the bubble of (p - 1) / (m + p - 1).
  const double slower = many.stages[static_cast<size_t>(many.slowest)].computation.total();
  EXPECT_NEAR(slower / many.step_seconds, 512.0 / 513, 0.02);
}

// Four stages of four chunks, and two data-parallel ranks that reduce over the links of the pipeline's sends.
config::Config interleaved() {
  config::Config config = small_gpt(16);
  config.layout.pipeline = 4;
  config.layout.chunks = 4;
  config.layout.schedule = config::PipelineSchedule::interleaved;
  config.layout.sharding = config::Sharding::zero1;
  config.train.global_batch = 8;
  return config;
}

// A send that waited for whole reductions would hold up a stage at each of the 16 virtual stages.
TEST(Prediction, HidesReductionsOfAPipelineWithoutHoldingUpItsSends) {
  Target target{.machine = machine_with_one_tier(), .software = {}, .devices = 8};
  const double hiding = predict(interleaved(), target).step_seconds;
  target.software.reduces_while_computing = false;
  EXPECT_LT(hiding, predict(interleaved(), target).step_seconds);
}

TEST(Prediction, DividesWaitsForStagesIntoBubbleAndQueuedTransfers) {
  Target target{.machine = machine_with_one_tier(), .software = {}, .devices = 8};
  const PlannedRun run = planned_run(interleaved(), target);
  const SimulatedStep step(run, target);
  const Prediction sharing = predict(step);
  double bubble = 0, queued = 0;
  for (size_t stage = 0; stage < 4; ++stage) {
    const StagePrediction& one = sharing.stages[stage];
    EXPECT_DOUBLE_EQ(one.waiting_seconds(), step.simulation.stages[stage].stage_seconds);
    bubble += one.bubble_seconds;
    queued += one.queued_seconds;
  }
  EXPECT_GT(queued, 0);
  EXPECT_DOUBLE_EQ(sharing.bubble_share, bubble / 4 / sharing.step_seconds);
  EXPECT_DOUBLE_EQ(sharing.queued_share, queued / 4 / sharing.step_seconds);
  // Where transfers take no time, only the bubble remains.
  target.machine = computing_machine();
  const Prediction computing = predict(interleaved(), target);
  EXPECT_NEAR(computing.queued_share, 0, 1e-12);
  EXPECT_GT(computing.bubble_share, 0.1);
}

TEST(Prediction, WaitsForGradientsThatNothingHides) {
  config::Config config = four_layers();
  config.train.global_batch = 4;
  Target target = on_devices(4);
  const Prediction hiding = predict(config, target);
  target.software.reduces_while_computing = false;
  const Prediction waiting = predict(config, target);
  const auto exposed = [](const Prediction& prediction) { return prediction.stages[0].exposed.front(); };
  EXPECT_EQ(exposed(waiting).group, "replicas");
  EXPECT_NEAR(exposed(waiting).seconds, exposed(waiting).moving_seconds, 1e-9);
  EXPECT_LT(exposed(hiding).seconds, exposed(hiding).moving_seconds);
  EXPECT_NEAR(waiting.step_seconds - hiding.step_seconds, exposed(waiting).seconds - exposed(hiding).seconds, 1e-9);
}

// Gradients that are cut are reduced for each of two micro-batches, which cannot be deferred: each is waited for at
// once.
TEST(Prediction, WaitsForGradientsOfEachMicroBatchThatNothingHides) {
  config::Config config = four_layers();
  config.layout.sharding = config::Sharding::zero2;
  config.train.global_batch = 8;
  Target target = on_devices(4);
  const Prediction hiding = predict(config, target);
  target.software.reduces_while_computing = false;
  const Prediction waiting = predict(config, target);
  const auto exposed = [](const Prediction& prediction) {
    return *std::ranges::find(prediction.stages[0].exposed, "shard_gradients", &ExposedTime::group);
  };
  EXPECT_NEAR(exposed(waiting).seconds, exposed(waiting).moving_seconds, 1e-9);
  EXPECT_NEAR(exposed(waiting).moving_seconds, exposed(hiding).moving_seconds, 1e-9);
  EXPECT_LT(exposed(hiding).seconds, exposed(hiding).moving_seconds);
  EXPECT_GT(waiting.step_seconds, hiding.step_seconds);
}

TEST(Prediction, CountsThePauseBetweenSteps) {
  Target target = on_devices(2);
  const double without = predict(four_layers(), target).step_seconds;
  target.software.pause_between_steps_seconds = 7;
  EXPECT_NEAR(predict(four_layers(), target).step_seconds, without + 7, 1e-9 * without);
}

// Two ranks on a link of 10 bytes/s: with ZeRO-1 a rank sends half of each gradient, and once more as much where sums
// are whole; what is behind the last backward is waited for.
TEST(Prediction, SumsOfWholeGradientsTakeTwiceAsLong) {
  config::Config config = four_layers();
  config.layout.sharding = config::Sharding::zero1;
  Target target{.machine = machine_with_one_tier(), .software = {}, .devices = 2};
  target.software.reduces_while_computing = false;
  const Prediction parts = predict(config, target);
  target.software.sums_whole_gradients = true;
  const Prediction whole = predict(config, target);
  const int64_t padded = elements_of_all_segments(planned_run(config, target));
  EXPECT_NEAR(whole.step_seconds - parts.step_seconds, 4.0 * static_cast<double>(padded) / 2 / 10,
              1e-9 * whole.step_seconds);
}

// Each backward of the eight micro-batches reads 2 bytes a parameter, and reads and writes 4, at 100 bytes/s.
TEST(Prediction, CopiesOfGradientsArePasses) {
  config::Config config = four_layers();
  config.train.precision = config.train.gradient_type = config::Precision::bf16;
  Target target = on_devices(1);
  const double without = predict(config, target).step_seconds;
  target.software.copies_gradients = true;
  const Prediction prediction = predict(config, target);
  const int64_t padded = elements_of_all_segments(planned_run(config, target));
  EXPECT_NEAR(prediction.step_seconds, without + 8 * 10.0 * static_cast<double>(padded) / 100, 1e-9 * without);
}

TEST(Prediction, StagingNeedsTheHostsBandwidth) {
  Target target = on_devices(8);
  target.software.name = "theirs";
  target.software.host_staging = machine::HostStaging::nodes;
  try {
    predict(four_layers(), target);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "theirs has data pass through the host's memory (host_staging), but small has no "
                 "host.staging_bandwidth; add it, or name other software");
  }
  const double direct = predict(four_layers(), on_devices(8)).step_seconds;
  target.machine.host.staging_bandwidth = 1e9;  // faster than all links
  EXPECT_EQ(predict(four_layers(), target).step_seconds, direct);
  target.machine.host.staging_bandwidth = 2;
  EXPECT_GT(predict(four_layers(), target).step_seconds, direct);
  target.devices = 4;  // one node
  EXPECT_EQ(predict(four_layers(), target).step_seconds, predict(four_layers(), on_devices(4)).step_seconds);
}

TEST(Prediction, SaysWhatDoesNotFit) {
  Target target = on_devices(1);
  target.machine.device.memory_bytes = 100'000;
  const Prediction prediction = predict(four_layers(), target);
  EXPECT_FALSE(prediction.feasible());
  EXPECT_TRUE(prediction.reason.starts_with("stage 0 needs ")) << prediction.reason;
  EXPECT_GT(prediction.step_seconds, 0);
}

TEST(Prediction, RefusesMoreDevicesThanTheMachineHas) {
  try {
    predict(four_layers(), on_devices(128));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "--devices 128 is more than the 64 devices of small; use at most 64");
  }
}

}  // namespace
}  // namespace terrace::plan
