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
  int64_t copies = 0;    // of the states in the memory of two nodes
  double copy_stall = 0, copy_unwritten = 0;  // the same of each of them
  double recovery = 0;                        // after a failure, to make a checkpoint of a copy
  double not_mended = 1;                      // share of failures after which no copy is left, but the last checkpoint
  double save = 0;                            // for which a checkpoint stops a run that ends
  double start = 0;                           // of a job, until its program reads the checkpoint
  double read = 0;                            // of a checkpoint
  double detection = 0;                       // from a failure to the end of the job
  double queue = 0;                           // in which a job waits
  double between_failures = never;            // of the job's nodes, on average
  double job = never;                         // in which a job trains, between its start and its signal to save

  static constexpr double never = std::numeric_limits<double>::infinity();
  // Whether a failure falls back to a copy: there are more of them than checkpoints, and they outlive a failure.
  bool falls_back_to_copies() const { return copies > saves && not_mended < 1; }
};

// The seconds of a run, which add up to `total()`, and its jobs.
struct RunCalendar {
  double computing = 0, evaluating = 0;
  double saving = 0;     // training stands still, and checkpoints at the ends of jobs and of the run are written
  double copying = 0;    // training stands still while states are copied into memory
  double repeated = 0;   // steps, evaluations and saves since the checkpoint before a failure
  double detecting = 0;  // failures
  double starting = 0;
  double reading = 0;  // checkpoints
  double queueing = 0;
  double failures = 0;    // expected number
  int64_t full_jobs = 0;  // which end at the site's limit, so that the run goes on in another one
  double interval = 0;    // of work from one checkpoint or copy in memory to the next

  // Expected: the first one, and one after each failure and each full job.
  double jobs() const { return 1 + failures + static_cast<double>(full_jobs); }
  // From the first step to the last in a run of one job.
  double training() const { return computing + evaluating + saving + copying + repeated; }
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
// checkpoint and the time in which the last checkpoint was not whole yet. Where failures fall back to copies in memory,
// I and that time are those of the copies, r has the recovery besides, and each failure that copies do not mend repeats
// half an interval of checkpoints more. Detection and queue come on top: nothing more is lost there. Saves at the ends
// of jobs and the starts after them count without failures. I is at most the time of a job, at whose end the run saves.
//
// A job is full with probability exp(-U / M), where U is the time in which it trains, and trains for
// M (1 - exp(-U / M)) on average, so that W' seconds of work take W' / (M (exp(U / M) - 1)) full jobs, W' / U without
// failures. The last one counts as one that ends by itself: the number is rounded up, less one.
RunCalendar run_calendar(const RunCourse& course);

// The share of failures of a node after which no copy of some states is left: another node that holds the same states,
// the next one or the one before, fails within `exposed` seconds, until there are two copies again. 1 on one node.
double share_not_mended(int64_t nodes, double exposed, double node_between_failures);

// Young's interval sqrt(2 C M) of work between copies or checkpoints of C seconds each, with a mean time M between the
// failures that fall back to them (J. W. Young, "A first order approximation to the optimum checkpoint interval",
// Communications of the ACM 17, 1974).
double best_interval(double cost, double between_failures);

// A step and a save, doubled, and a minute, as whole minutes; at least two minutes: the time before the end of a job
// when it is asked to save, as `terrace launch` does. Slurm sends the signal up to a minute early.
double signal_seconds(double step_seconds, double save_seconds);

}  // namespace terrace::plan
