// Counts failures, jobs and what each of them takes.
#include "terrace/plan/calendar/run_calendar.h"

#include <algorithm>
#include <cmath>

namespace terrace::plan {
namespace {

constexpr double never = RunCourse::never;

constexpr double most_jobs = 1e12;  // that are counted

// The work from one of so many checkpoints or copies to the next.
double interval_of(const RunCourse& course, int64_t saves, double work) {
  return std::min(work / static_cast<double>(saves + 1), course.job);
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
  calendar.copying = static_cast<double>(course.copies) * course.copy_stall;
  const bool from_copies = course.falls_back_to_copies();
  const double recovery = from_copies ? course.recovery : 0;
  const double unwritten = from_copies ? course.copy_unwritten : course.unwritten;
  const double work = calendar.training(), restart = course.start + course.read + recovery;
  calendar.interval = interval_of(course, from_copies ? course.copies : course.saves, work);
  if (course.job <= 0) return endless(calendar);
  if (course.between_failures < never) {
    const double taken = work / calendar.interval * std::exp((restart + unwritten) / course.between_failures) *
                         with_failures(calendar.interval, course.between_failures);
    calendar.failures = taken / course.between_failures;
    if (!(taken <= most_times_as_long * work)) return endless(calendar);
    calendar.repeated = std::max(0.0, taken - work - calendar.failures * restart);
    if (from_copies) {
      calendar.repeated += calendar.failures * course.not_mended * interval_of(course, course.saves, work) / 2;
    }
  }
  if (course.job < never) {
    const double jobs = (work + calendar.repeated) / with_failures(course.job, course.between_failures);
    if (!(jobs <= most_jobs)) return endless(calendar);
    calendar.full_jobs = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(jobs)) - 1);
  }
  const auto full = static_cast<double>(calendar.full_jobs);
  calendar.saving += (full + 1) * course.save;
  calendar.starting = calendar.jobs() * course.start;
  calendar.reading = (calendar.jobs() - 1) * course.read + calendar.failures * recovery;
  calendar.detecting = calendar.failures * course.detection;
  calendar.queueing = calendar.jobs() * course.queue;
  return calendar;
}

double share_not_mended(int64_t nodes, double exposed, double node_between_failures) {
  if (nodes < 2) return 1;
  const double others = nodes == 2 ? 1 : 2;
  return std::min(1.0, others * exposed / node_between_failures);
}

double best_interval(double cost, double between_failures) { return std::sqrt(2 * cost * between_failures); }

double signal_seconds(double step_seconds, double save_seconds) {
  const double needed = 2 * (step_seconds + save_seconds) + 60;
  return std::max(120.0, std::ceil(needed / 60) * 60);
}

}  // namespace terrace::plan
