// Compares the cost of whole runs with numbers worked out by hand.
#include "terrace/plan/time/run_cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "terrace/plan/time/evaluation_time.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

// 100 steps of 8 samples of 16 tokens, which take 10 s each, with a checkpoint every 20 steps for which training waits.
config::Config hundred_steps() {
  config::Config config = small_gpt(2);
  config.train.steps = 100;
  config.checkpoint.every = 20;
  config.checkpoint.background = false;
  return config;
}

Prediction ten_seconds() {
  Prediction prediction;
  prediction.samples = 8;
  prediction.items = 128;
  prediction.step_seconds = 10;
  prediction.parameters = 1000;
  return prediction;
}

// Eight devices fill two nodes, and start in 24 s.
Target eight_devices() {
  Target target{.machine = small_machine(), .software = {}, .devices = 8};
  target.machine.start = {.seconds = 20, .seconds_per_rank = 0.5};
  return target;
}

TEST(RunCost, TimeAndEnergyOfTheConfiguredSteps) {
  Target target = eight_devices();
  target.machine.device.power_watts = 50;
  const RunCost cost = run_cost(hundred_steps(), ten_seconds(), target);
  EXPECT_EQ(cost.steps, 100);
  EXPECT_DOUBLE_EQ(cost.items, 100 * 128);
  EXPECT_DOUBLE_EQ(cost.calendar.computing, 1000);
  EXPECT_DOUBLE_EQ(cost.seconds(), 1024);
  EXPECT_DOUBLE_EQ(cost.device_hours, 8 * 1024 / 3600.0);
  EXPECT_DOUBLE_EQ(cost.energy_joules.value(), 8 * 1024 * 50.0);
}

TEST(RunCost, RoundsItemsUpToWholeSteps) {
  const RunCost cost = run_cost(hundred_steps(), ten_seconds(), eight_devices(), 1000.0);
  EXPECT_EQ(cost.steps, 8);  // 7 steps have 896 tokens
  EXPECT_DOUBLE_EQ(cost.items, 8 * 128);
  EXPECT_DOUBLE_EQ(cost.calendar.computing, 80);
  EXPECT_EQ(run_cost(hundred_steps(), ten_seconds(), eight_devices(), 128.0).steps, 1);
  EXPECT_EQ(run_cost(hundred_steps(), ten_seconds(), eight_devices(), 1.28e14).steps, 1'000'000'000'000);
}

// 4 samples for the first 40 of them, in 10 steps, then 8.
TEST(RunCost, CountsTheSamplesOfARampUpAndOfPhases) {
  config::Config config = hundred_steps();
  config.train.ramp_start = config.train.ramp_increment = 4;
  config.train.ramp_samples = 40;
  const RunCost ramped = run_cost(config, ten_seconds(), eight_devices());
  EXPECT_DOUBLE_EQ(ramped.items, 16 * (10 * 4 + 90 * 8));
  EXPECT_DOUBLE_EQ(ramped.calendar.computing, (10 * 4 + 90 * 8) * 10 / 8.0);
  config.phases = {{.from_step = 51, .global_batch = 16}};
  EXPECT_DOUBLE_EQ(run_cost(config, ten_seconds(), eight_devices()).items, 16 * (10 * 4 + 40 * 8 + 50 * 16));
}

// 12,000 bytes at 600 bytes/s and 24 files take 20.012 s. With a copy beside training it waits for 1,500 bytes a rank,
// which the memory reads and writes at 100 bytes/s.
TEST(RunCost, CountsCheckpointsAsTheRunMakesThem) {
  config::Config config = hundred_steps();
  Target target = eight_devices();
  target.machine.storage.total_bandwidth = 600;
  const RunCost waiting = run_cost(config, ten_seconds(), target);
  EXPECT_EQ(waiting.course.saves, 4) << "the fifth is the one at the end";
  EXPECT_DOUBLE_EQ(waiting.calendar.saving, 5 * 20.012);
  EXPECT_DOUBLE_EQ(waiting.course.unwritten, 0);
  config.checkpoint.background = true;
  const RunCost beside = run_cost(config, ten_seconds(), target);
  EXPECT_DOUBLE_EQ(beside.calendar.saving, 4 * 30 + 20.012);
  EXPECT_DOUBLE_EQ(beside.course.unwritten, 20.012);
  // A checkpoint after each step, of 10 s, waits for the one before, which takes 10.012 s longer.
  config.checkpoint.every = 1;
  EXPECT_NEAR(run_cost(config, ten_seconds(), target).calendar.saving, 99 * (30 + 10.012) + 20.012, 1e-9);
  config.checkpoint.every = 0;
  EXPECT_DOUBLE_EQ(run_cost(config, ten_seconds(), target).calendar.saving, 20.012);
}

TEST(RunCost, PointsAtCheckpointsThatFollowEachOtherTooFast) {
  config::Config config = hundred_steps();
  config.checkpoint.background = true;
  config.checkpoint.every = 1;
  Target target = eight_devices();
  target.machine.storage.total_bandwidth = 600;
  const auto text = [&] { return text_of(run_cost(config, ten_seconds(), target), config, target); };
  // 99 waits of 40.012 s in 1000 s; copies of 30 s are 5% of 600 s, in 60 steps.
  EXPECT_NE(text().find("warning: a checkpoint every 1 step (10.0 s) takes 20.0 s to be written, for which training "
                        "waits 396% of the time of its steps; set checkpoint.every to 60 or more\n"),
            std::string::npos)
      << text();
  // Two nodes fail once in 9 h: sqrt(2 * 20.012 * 16,200) s are 805 s.
  target.machine.node_failure_hours = 9;
  EXPECT_NE(text().find("set checkpoint.every to 60 or more; 81 is best for the machine's failures\n"),
            std::string::npos)
      << text();
  config.train.steps = 60;
  EXPECT_NE(text().find("; one at the end is enough for so short a run: checkpoint.every = 0\n"), std::string::npos);
  config.train.steps = 1000;
  config.checkpoint.every = 60;
  EXPECT_EQ(text().find("warning"), std::string::npos) << text();
}

// One of two nodes fails every half hour. A restart starts in 24 s and reads in 20.012 s, an interval has 200 s of
// steps and a share of four checkpoints, and other ranks wait ten minutes for the failed ones.
TEST(RunCost, CountsFailures) {
  Target target = eight_devices();
  target.machine.node_failure_hours = 1;
  target.machine.storage.total_bandwidth = 600;
  target.machine.start.queue_seconds = 3600;
  config::Config config = hundred_steps();
  config.layout.timeout = 600;
  const RunCost cost = run_cost(config, ten_seconds(), target);
  const double work = 1000 + 4 * 20.012, restart = 24 + 20.012;
  const double taken = 5 * 1800 * std::exp(restart / 1800) * (std::exp(work / 5 / 1800) - 1);
  EXPECT_NEAR(cost.restarts.value(), taken / 1800, 1e-12);
  EXPECT_NEAR(cost.calendar.repeated, taken - work - taken / 1800 * restart, 1e-9);
  EXPECT_NEAR(cost.calendar.detecting, taken / 1800 * 600, 1e-9);
  EXPECT_NEAR(cost.calendar.queueing, (1 + taken / 1800) * 3600, 1e-9);
  EXPECT_DOUBLE_EQ(cost.checkpoint_interval_seconds, 200);
  EXPECT_DOUBLE_EQ(cost.device_hours, 8 * (cost.seconds() - cost.calendar.queueing) / 3600) << "a queue costs none";
}

// A failure every 1800 s repeats half of 1,000 s and more, and Young's interval is sqrt(2 * 20.012 * 1800) s.
TEST(RunCost, PointsAtCheckpointsThatAreTooRareForTheFailures) {
  config::Config config = hundred_steps();
  config.checkpoint.every = 0;
  Target target = eight_devices();
  target.machine.node_failure_hours = 1;
  target.machine.storage.total_bandwidth = 600;
  const auto text = [&] { return text_of(run_cost(config, ten_seconds(), target), config, target); };
  EXPECT_NE(
      text().find("of the time of the steps, since checkpoint.every = 0; 27 is best for the machine's failures\n"),
      std::string::npos)
      << text();
  config.checkpoint.every = 27;
  EXPECT_EQ(text().find("warning: failures"), std::string::npos) << text();
}

// Jobs of 10 min, asked to save 2 min before the end (2 (10 + 20.012) s and a minute, in whole ones), train for
// 600 - 24 - 20.012 - 180 s: 1,080.048 s of steps and saves take three of them.
TEST(RunCost, CutsARunIntoJobs) {
  Target target = eight_devices();
  target.machine.storage.total_bandwidth = 600;
  target.machine.launch.longest_times = {{"", 1, 3600}, {"", 2, 600}};
  const RunCost cost = run_cost(hundred_steps(), ten_seconds(), target);
  EXPECT_DOUBLE_EQ(cost.job_limit_seconds, 600) << "of jobs of two nodes";
  EXPECT_DOUBLE_EQ(cost.course.job, 600 - 24 - 20.012 - 180);
  EXPECT_EQ(cost.calendar.full_jobs, 2);
  EXPECT_DOUBLE_EQ(cost.calendar.starting, 3 * 24);
  EXPECT_DOUBLE_EQ(cost.calendar.reading, 2 * 20.012);
  EXPECT_DOUBLE_EQ(cost.calendar.saving, (4 + 3) * 20.012);
  const Json json = json_of(cost, hundred_steps());
  EXPECT_EQ(json["jobs"], 3);
  double sum = 0;
  for (const auto& [part, seconds] : json["parts"].items()) sum += seconds.get<double>();
  EXPECT_DOUBLE_EQ(sum, json["seconds"].get<double>());
  const std::string text = text_of(cost, hundred_steps(), target);
  EXPECT_NE(
      text.find("3 jobs that train for 6 min 16 s at most, since jobs of 2 nodes may take 10 min 00 s ([launch])\n"),
      std::string::npos)
      << text;
  target.machine.launch.longest_times = {{"", 2, 200}};
  const RunCost none = run_cost(hundred_steps(), ten_seconds(), target);
  EXPECT_NE(text_of(none, hundred_steps(), target).find("never ends: jobs of 2 nodes may take 3 min 20 s ([launch])"),
            std::string::npos);
}

// train.time_limit ends a job earlier than the site does.
TEST(RunCost, StopsJobsAtTheRunsOwnLimit) {
  config::Config config = hundred_steps();
  config.train.time_limit = 324;
  const RunCost cost = run_cost(config, ten_seconds(), eight_devices());
  EXPECT_DOUBLE_EQ(cost.course.job, 300);
  EXPECT_EQ(cost.calendar.full_jobs, 3);
}

// Two global batches of eight micro-batches on one rank, after steps 40, 80 and 100.
TEST(RunCost, CountsEvaluations) {
  config::Config config = hundred_steps();
  config.train.evaluate_every = 40;
  config.train.evaluate_batches = 2;
  Target target{.machine = computing_machine(), .software = {}, .devices = 1};
  const Prediction prediction = predict(config, target);
  const RunCost cost = run_cost(config, prediction, target);
  EXPECT_EQ(cost.evaluations, 3);
  EXPECT_DOUBLE_EQ(cost.calendar.evaluating, 3 * 16 * evaluation_round_seconds(config, target));
  config.train.evaluate_batches = 0;
  const RunCost unknown = run_cost(config, prediction, target);
  EXPECT_EQ(unknown.evaluations, 0);
  EXPECT_NE(text_of(unknown, config, target).find("not counted: evaluations, since train.evaluate_batches = 0"),
            std::string::npos);
}

TEST(RunCost, NeverEndsWhereNodesFailBeforeACheckpoint) {
  Target target = eight_devices();
  target.machine.node_failure_hours = 0.015;  // 27 s between failures, with 200 s between checkpoints
  const RunCost cost = run_cost(hundred_steps(), ten_seconds(), target);
  EXPECT_TRUE(std::isinf(cost.seconds()));
  EXPECT_EQ(
      text_of(cost, hundred_steps(), target),
      "    never ends: 2 nodes fail every 27.0 s on average, too often for a run with a checkpoint every 20 steps "
      "(3 min 20 s)\n");
  const Json json = json_of(cost, hundred_steps());
  for (const char* unknown : {"seconds", "device_hours", "restarts", "jobs"}) EXPECT_TRUE(json[unknown].is_null());
}

TEST(RunCost, NamesWhatTheMachinesDescriptionLacks) {
  Target target = eight_devices();
  target.machine.file = "ours.toml";
  const auto text = [&](const config::Config& config) {
    return text_of(run_cost(config, ten_seconds(), target), config, target);
  };
  EXPECT_EQ(text(hundred_steps()),
            "    100 steps of 1.28e+04 tokens: 17 min 04 s, 2.28 device-hours\n"
            "      steps                    16 min 40 s\n"
            "      starts                        24.0 s  1 of 24.0 s\n"
            "    not known from ours.toml: the energy (no power in [device]), failures (no node_failure_time), the "
            "writing of checkpoints (no [storage]), the wait in the queue (no queue_wait in [start])\n");
  const Json json = json_of(run_cost(hundred_steps(), ten_seconds(), target), hundred_steps());
  for (const char* unknown : {"energy_joules", "restarts", "repeated_seconds"}) EXPECT_TRUE(json[unknown].is_null());
  target.machine.device.power_watts = 50;
  target.machine.node_failure_hours = 1000;
  target.machine.storage.total_bandwidth = 12'000;
  target.machine.start.queue_seconds = 0;
  EXPECT_EQ(text(hundred_steps()),
            "    100 steps of 1.28e+04 tokens: 17 min 09 s, 2.29 device-hours, 114 Wh\n"
            "      steps                    16 min 40 s\n"
            "      checkpoints                   5.06 s  4 that stop training for 1.01 s, 1 of 1.01 s at the end\n"
            "      starts                        24.0 s  1 of 24.0 s\n"
            "    fewer than 0.01 failures of 2 nodes are to be expected\n");
}

}  // namespace
}  // namespace terrace::plan
