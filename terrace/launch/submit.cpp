// Writes and submits the script.
#include "terrace/launch/submit.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/units.h"
#include "terrace/launch/job_record.h"
#include "terrace/launch/slurm.h"

namespace terrace::launch {
namespace {

namespace fs = std::filesystem;

void check_no_other_job(const fs::path& run) {
  const std::optional<JobRecord> earlier = read_job_record(run);
  if (!earlier) return;
  const std::optional<JobsByNumber> jobs = ask_squeue({earlier->job});
  if (!jobs || !jobs->contains(earlier->job)) return;
  const SlurmJob& job = jobs->at(earlier->job);
  if (!job.is_waiting() && !job.is_active()) return;
  throw UserError::of("job {} trains {} and is {}; end it with scancel {} first, or name another checkpoint.folder",
                      earlier->job, run.string(), job.state, earlier->job);
}

}  // namespace

std::string submit(const Job& job, const std::string& script) {
  const machine::Machine& machine = job.request.machine;
  if (machine.launch.needs_account && machine.launch.account.empty()) {
    throw UserError::of("{} takes no job without an account: give --account NAME, or account in its [launch]",
                        machine.name);
  }
  const fs::path run = job.run_folder();
  if (job.checkpoints_that_fit && *job.checkpoints_that_fit < 1) {
    throw UserError(fmt::format("a checkpoint takes {}, and less is free at {}; name a checkpoint.folder on a larger "
                                "disk",
                                format_bytes(job.checkpoint_bytes), run.string()),
                    ExitCode::infeasible);
  }
  check_no_other_job(run);
  std::error_code error;
  fs::create_directories(run, error);
  if (error) throw UserError::of("{} cannot be made: {}", run.string(), error.message());
  const fs::path file = run / "job.sh";
  write_text_atomically(file, script);
  std::string number = submit_script(file.string());
  const JobRecord record{.job = number, .log = job.log_file(number).string(), .steps = job.request.config.train.steps};
  write_text_atomically(run / job_record_name, text_of(record) + "\n");
  return number;
}

}  // namespace terrace::launch
