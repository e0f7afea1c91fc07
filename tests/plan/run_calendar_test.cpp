// Compares the calendar of a run with sums by hand, and with runs whose failures are drawn.
#include "terrace/plan/calendar/run_calendar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace terrace::plan {
namespace {

// 1000 s of steps and 100 s of evaluations, with four checkpoints that stop training for 5 s each.
RunCourse course() {
  return {.computing = 980, .evaluating = 100, .saves = 4, .stall = 5, .save = 12, .start = 30, .read = 8};
}

TEST(RunCalendar, ARunOfOneJob) {
  const RunCalendar calendar = run_calendar(course());
  EXPECT_DOUBLE_EQ(calendar.saving, 4 * 5 + 12);
  EXPECT_DOUBLE_EQ(calendar.starting, 30);
  EXPECT_DOUBLE_EQ(calendar.reading, 0) << "the first job begins the run";
  EXPECT_DOUBLE_EQ(calendar.jobs(), 1);
  EXPECT_DOUBLE_EQ(calendar.interval, 220) << "four checkpoints cut 1100 s into five";
  EXPECT_DOUBLE_EQ(calendar.total(), 980 + 100 + 32 + 30);
}

// Jobs of 300 s: 1100 s take three full ones and a fourth. Each waits, starts and saves, and all but the first read.
TEST(RunCalendar, JobsOfASiteThatLimitsThem) {
  RunCourse limited = course();
  limited.job = 300;
  limited.queue = 3600;
  const RunCalendar calendar = run_calendar(limited);
  EXPECT_EQ(calendar.full_jobs, 3);
  EXPECT_DOUBLE_EQ(calendar.jobs(), 4);
  EXPECT_DOUBLE_EQ(calendar.saving, 4 * 5 + 4 * 12);
  EXPECT_DOUBLE_EQ(calendar.starting, 4 * 30);
  EXPECT_DOUBLE_EQ(calendar.reading, 3 * 8);
  EXPECT_DOUBLE_EQ(calendar.queueing, 4 * 3600);
  EXPECT_DOUBLE_EQ(calendar.occupied(), 980 + 100 + 68 + 120 + 24);
  EXPECT_DOUBLE_EQ(calendar.total(), calendar.occupied() + 14'400);
  for (const auto& [job, full] : {std::pair(1100.0, 0), {1099.0, 1}, {550.0, 1}, {549.0, 2}, {1e9, 0}}) {
    limited.job = job;
    EXPECT_EQ(run_calendar(limited).full_jobs, full) << job;
  }
}

// Failures every 1800 s on average. An interval of 220 s, after restarts of 38 s and with 10 s until a checkpoint is
// whole, takes 1800 exp(48 / 1800) (exp(220 / 1800) - 1) s.
TEST(RunCalendar, FailuresTakeDalysTime) {
  RunCourse failing = course();
  failing.between_failures = 1800;
  failing.unwritten = 10;
  failing.detection = 600;
  failing.queue = 60;
  const RunCalendar calendar = run_calendar(failing);
  const double taken = 5 * 1800 * std::exp(48 / 1800.0) * (std::exp(220 / 1800.0) - 1);
  EXPECT_NEAR(calendar.failures, taken / 1800, 1e-12);
  EXPECT_NEAR(calendar.repeated, taken - 1100 - taken / 1800 * 38, 1e-9);
  EXPECT_NEAR(calendar.detecting, taken / 1800 * 600, 1e-9);
  EXPECT_NEAR(calendar.starting, (1 + taken / 1800) * 30, 1e-9);
  EXPECT_NEAR(calendar.reading, taken / 1800 * 8, 1e-9);
  EXPECT_NEAR(calendar.queueing, (1 + taken / 1800) * 60, 1e-9);
  // Where failures are rare, each repeats half an interval and the time until the last checkpoint was whole.
  failing.between_failures = 1e6;
  const RunCalendar rare = run_calendar(failing);
  EXPECT_NEAR(rare.repeated / rare.failures, 110 + 10, 0.1);
}

// 54 copies of 1 s cut the work, 1154 s with them, into 55. After a failure one of them becomes a checkpoint, which
// takes 12 s; a tenth of the failures leave no copy and repeat half an interval of checkpoints.
TEST(RunCalendar, FailuresFallBackToCopiesInMemory) {
  RunCourse copied = course();
  copied.between_failures = 1800;
  copied.unwritten = 10;
  copied.copies = 54;
  copied.copy_stall = 1;
  copied.copy_unwritten = 2;
  copied.recovery = 12;
  copied.not_mended = 0.1;
  const RunCalendar calendar = run_calendar(copied);
  const double taken = 55 * 1800 * std::exp(52 / 1800.0) * (std::exp(1154 / 55.0 / 1800) - 1);
  EXPECT_DOUBLE_EQ(calendar.copying, 54);
  EXPECT_DOUBLE_EQ(calendar.interval, 1154 / 55.0);
  EXPECT_NEAR(calendar.failures, taken / 1800, 1e-12);
  EXPECT_NEAR(calendar.repeated, taken - 1154 - taken / 1800 * 50 + taken / 1800 * 0.1 * 1154 / 5 / 2, 1e-9);
  EXPECT_NEAR(calendar.reading, taken / 1800 * (8 + 12), 1e-9);
  EXPECT_NEAR(calendar.total(), 1154 + 12 + calendar.repeated + calendar.starting + calendar.reading, 1e-9);
  copied.not_mended = 1;  // on one node
  const RunCalendar alone = run_calendar(copied);
  EXPECT_DOUBLE_EQ(alone.interval, 1154 / 5.0);
  EXPECT_NEAR(alone.reading, alone.failures * 8, 1e-9);
}

TEST(RunCalendar, ShareOfFailuresThatCopiesDoNotMend) {
  EXPECT_EQ(share_not_mended(1, 100, 1e6), 1);
  EXPECT_DOUBLE_EQ(share_not_mended(2, 100, 1e6), 1e-4);   // the other node
  EXPECT_DOUBLE_EQ(share_not_mended(64, 100, 1e6), 2e-4);  // the next one and the one before
  EXPECT_EQ(share_not_mended(64, 1e7, 1e6), 1);
  EXPECT_DOUBLE_EQ(best_interval(2, 400), 40);
}

TEST(RunCalendar, SaysThatARunNeverEnds) {
  RunCourse failing = course();
  failing.between_failures = 20;  // of 220 s between checkpoints
  EXPECT_FALSE(run_calendar(failing).ends());
  failing.between_failures = 1e5;
  EXPECT_TRUE(run_calendar(failing).ends());
  failing.job = 0;
  EXPECT_FALSE(run_calendar(failing).ends());
}

// A run whose failures are drawn, by the rules of a chain of jobs.
RunCalendar drawn(const RunCourse& course, std::mt19937_64& random) {
  std::exponential_distribution<double> time(1 / course.between_failures);
  RunCalendar calendar{.computing = course.computing, .evaluating = course.evaluating};
  const double work = course.computing + course.evaluating + static_cast<double>(course.saves) * course.stall;
  const double interval = work / static_cast<double>(course.saves + 1);
  double done = 0;  // and saved
  while (done < work) {
    calendar.queueing += course.queue;
    const bool is_first = calendar.queueing == course.queue;
    calendar.starting += course.start;
    if (!is_first) calendar.reading += course.read;
    double left = time(random) - course.start - (is_first ? 0 : course.read), trained = 0, at = done;
    while (left > 0) {
      const double next = std::min((std::floor(at / interval + 1e-9) + 1) * interval, work);
      const double until_limit = course.job - trained;
      const double seconds = std::min({next - at, left, until_limit});
      left -= seconds;
      trained += seconds;
      at += seconds;
      if (trained >= course.job || at >= work) break;
    }
    if (left > 0) {
      if (at < work) ++calendar.full_jobs;
      calendar.saving += course.save;
      done = at;
      continue;
    }
    ++calendar.failures;
    const double kept = std::max(done, std::floor((at - course.unwritten) / interval + 1e-9) * interval);
    calendar.repeated += at - kept;
    done = kept;
  }
  return calendar;
}

TEST(RunCalendar, IsTheMeanOfDrawnRuns) {
  constexpr int runs = 4000;
  RunCourse one{.computing = 40'000, .saves = 79, .unwritten = 40, .save = 40, .start = 100, .read = 40, .queue = 1};
  one.between_failures = 8000;
  for (const double job : {RunCourse::never, 20'000.0, 5000.0}) {
    one.job = job;
    const RunCalendar expected = run_calendar(one);
    std::mt19937_64 random(7);
    double total = 0, failures = 0, full = 0, repeated = 0;
    for (int i = 0; i < runs; ++i) {
      const RunCalendar calendar = drawn(one, random);
      total += calendar.total();
      failures += calendar.failures;
      full += static_cast<double>(calendar.full_jobs);
      repeated += calendar.repeated;
    }
    // The mean of 4,000 runs of five failures each is known to 1.6% of a failure's cost. Full jobs are rounded.
    const double saved = expected.saving - 79 * one.stall;
    EXPECT_NEAR(total / runs, expected.total() - saved + full / runs * one.save + one.save, 0.01 * expected.total())
        << job;
    EXPECT_NEAR(failures / runs, expected.failures, 0.03 * expected.failures) << job;
    EXPECT_NEAR(repeated / runs, expected.repeated, 0.06 * expected.repeated) << job;
    EXPECT_NEAR(full / runs, static_cast<double>(expected.full_jobs), 0.7) << job;
  }
}

// Llama 3 405B (arXiv 2407.21783, section 3.3.4): 419 unexpected interruptions in 54 days of 2,048 nodes, with more
// than 90% of the time effective. Checkpoints of 12 bytes a parameter take 29 s, with 16,384 ranks at 1 TB/s, and
// follow each other at Young's interval; ranks start in 109 s, and failures are found in ten minutes.
TEST(RunCalendar, APublishedTrainingIsAsEffective) {
  constexpr double day = 86'400;
  RunCourse llama{.computing = 48.5 * day, .save = 29.4, .start = 109, .read = 29.4, .detection = 600};
  llama.between_failures = 54 * day / 419;
  llama.unwritten = llama.save;
  const double young = std::sqrt(2 * llama.save * llama.between_failures);
  llama.saves = static_cast<int64_t>(llama.computing / young);
  const RunCalendar calendar = run_calendar(llama);
  EXPECT_NEAR(calendar.total(), 54 * day, 0.5 * day);
  EXPECT_NEAR(calendar.computing / calendar.total(), 0.9, 0.01);
}

TEST(RunCalendar, TheSignalComesTwoStepsAndSavesBeforeTheEnd) {
  EXPECT_EQ(signal_seconds(1, 2), 120);
  EXPECT_EQ(signal_seconds(60, 40), 300);  // 2 * 100 + 60, in whole minutes
}

}  // namespace
}  // namespace terrace::plan
