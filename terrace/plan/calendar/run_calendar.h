// Adds up the time of a run from its first job to its last: the work, what interrupts it, and the jobs into which a
// site cuts it.
#pragma once

#include <cstdint>
#include <limits>

namespace terrace::plan {

// The work of a run and its interruptions; all times are in seconds.
struct RunCourse {
  double computing = 0;  // of all steps
  double evaluating = 0;
  int64_t saves = 0;     // checkpoints beside the last one and those at the ends of jobs
  double stall = 0;      // for which training stands still at each of them
  double unwritten = 0;  // after which such a checkpoint is whole; a failure before falls back one more interval
  double save = 0;       // for which a checkpoint stops a run that ends
  double start = 0;      // of a job, until its program reads the checkpoint
  double read = 0;       // of a checkpoint
  double detection = 0;  // from a failure to the end of the job
  double queue = 0;      // in which a job waits
  double between_failures = never;  // of the job's nodes, on average
  double job = never;               // in which a job trains, between its start and its signal to save

  static constexpr double never = std::numeric_limits<double>::infinity();
};

// The seconds of a run, which add up to `total()`, and its jobs.
struct RunCalendar {
  double computing = 0, evaluating = 0;
  double saving = 0;     // training stands still, and checkpoints at the ends of jobs and of the run are written
  double repeated = 0;   // steps, evaluations and saves since the checkpoint before a failure
  double detecting = 0;  // failures
  double starting = 0;
  double reading = 0;  // checkpoints
  double queueing = 0;
  double failures = 0;    // expected number
  int64_t full_jobs = 0;  // which end at the site's limit, so that the run goes on in another one
  double interval = 0;    // of work from one checkpoint to the next

  // Expected: the first one, and one after each failure and each full job.
  double jobs() const { return 1 + failures + static_cast<double>(full_jobs); }
  // From the first step to the last in a run of one job.
  double training() const { return computing + evaluating + saving + repeated; }
  // The time for which the devices are occupied.
  double occupied() const { return training() + detecting + starting + reading; }
  double total() const { return occupied() + queueing; }
  bool ends() const { return total() < RunCourse::never; }
};

// A run that takes more than a hundred times as long as its work is said to never end: its times are infinite, since
// the expected time grows exponentially with the interval between checkpoints. So is one whose jobs have no time to
// train.
inline constexpr double most_times_as_long = 100;

// Failures come at any time equally (a Poisson process). The expected time of work W with a checkpoint at each interval
// I is then W / I M exp(r / M) (exp(I / M) - 1), with the mean time M between failures and the time r of a restart, in
// which there are failures too (J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
// dumps", Future Generation Computer Systems 22, 2006, section 3). r has the start of a job, the reading of a
// checkpoint and the time in which the last checkpoint was not whole yet. Detection and queue come on top: nothing more
// is lost there. Saves at the ends of jobs and the starts after them count without failures. I is at most the time of a
// job, at whose end the run saves.
//
// A job is full with probability exp(-U / M), where U is the time in which it trains, and trains for
// M (1 - exp(-U / M)) on average, so that W' seconds of work take W' / (M (exp(U / M) - 1)) full jobs, W' / U without
// failures. The last one counts as one that ends by itself: the number is rounded up, less one.
RunCalendar run_calendar(const RunCourse& course);

// A step and a save, doubled, and a minute, as whole minutes; at least two minutes: the time before the end of a job
// when it is asked to save, as `terrace launch` does. Slurm sends the signal up to a minute early.
double signal_seconds(double step_seconds, double save_seconds);

}  // namespace terrace::plan
