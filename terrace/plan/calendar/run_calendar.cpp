// Counts failures, jobs and what each of them takes.
#include "terrace/plan/calendar/run_calendar.h"

#include <algorithm>
#include <cmath>

namespace terrace::plan {
namespace {

constexpr double never = RunCourse::never;

constexpr double most_jobs = 1e12;  // that are counted

// The work from one checkpoint to the next.
double interval_of(const RunCourse& course, double work) {
  return std::min(work / static_cast<double>(course.saves + 1), course.job);
}

// M (exp(seconds / M) - 1), which is `seconds` where nothing fails.
double with_failures(double seconds, double between_failures) {
  return between_failures == never ? seconds : between_failures * std::expm1(seconds / between_failures);
}

RunCalendar endless(RunCalendar calendar) {
  calendar.repeated = never;
  return calendar;
}

}  // namespace

RunCalendar run_calendar(const RunCourse& course) {
  RunCalendar calendar{.computing = course.computing, .evaluating = course.evaluating};
  calendar.saving = static_cast<double>(course.saves) * course.stall;
  const double work = calendar.training(), restart = course.start + course.read;
  calendar.interval = interval_of(course, work);
  if (course.job <= 0) return endless(calendar);
  if (course.between_failures < never) {
    const double taken = work / calendar.interval * std::exp((restart + course.unwritten) / course.between_failures) *
                         with_failures(calendar.interval, course.between_failures);
    calendar.failures = taken / course.between_failures;
    if (!(taken <= most_times_as_long * work)) return endless(calendar);
    calendar.repeated = std::max(0.0, taken - work - calendar.failures * restart);
  }
  if (course.job < never) {
    const double jobs = (work + calendar.repeated) / with_failures(course.job, course.between_failures);
    if (!(jobs <= most_jobs)) return endless(calendar);
    calendar.full_jobs = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(jobs)) - 1);
  }
  const auto full = static_cast<double>(calendar.full_jobs);
  calendar.saving += (full + 1) * course.save;
  calendar.starting = calendar.jobs() * course.start;
  calendar.reading = (calendar.jobs() - 1) * course.read;
  calendar.detecting = calendar.failures * course.detection;
  calendar.queueing = calendar.jobs() * course.queue;
  return calendar;
}

double signal_seconds(double step_seconds, double save_seconds) {
  const double needed = 2 * (step_seconds + save_seconds) + 60;
  return std::max(120.0, std::ceil(needed / 60) * 60);
}

}  // namespace terrace::plan
