// Puts a script together from its parts.
#include "terrace/launch/job_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "terrace/base/text/shell_word.h"
#include "terrace/launch/job_record.h"
#include "terrace/launch/job_time.h"

namespace terrace::launch {
namespace {

std::vector<std::string> environment_of(const Job& job) {
  std::vector<std::string> values = job.request.machine.launch.environment;
  if (job.request.nodes == 1) {
    const std::vector<std::string>& more = job.request.machine.launch.one_node_environment;
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

// NAME="VALUE", in which the shell replaces variables.
std::string quoted_value(const std::string& name_and_value) {
  const size_t equals = name_and_value.find('=');
  return fmt::format("{}=\"{}\"", name_and_value.substr(0, equals), name_and_value.substr(equals + 1));
}

std::string program_of(const JobRequest& request) {
  return request.archive.empty() ? shell_word(request.program) : "\"$installed/bin/terrace\"";
}

// Every --set of the training, each with a space before it.
std::string settings_of(const Job& job) {
  const JobRequest& request = job.request;
  std::string command;
  for (const std::string& text : request.overrides) command += " --set " + shell_word(text);
  const std::string& disk = request.machine.launch.node_disk;
  if (job.stages) command += fmt::format(" --set \"checkpoint.staging={}\"", disk);
  if (job.data_stage_bytes > 0) {
    command += fmt::format(" --set \"data.stage={}\" --set data.stage_bytes={}", disk, job.data_stage_bytes);
  }
  return command;
}

std::string training_command(const Job& job) {
  return fmt::format("{} train {}{} --resume auto", program_of(job.request), shell_word(job.request.config_file),
                     settings_of(job));
}

// The supervisor in the script of a job with spares.
std::string supervisor_command(const Job& job) {
  const JobRequest& request = job.request;
  const std::string program = program_of(request);
  return fmt::format("{} launch {} --nodes {} --spares {} --machine {} --program {}{} --run", program,
                     shell_word(request.config_file), request.nodes, request.spares, shell_word(request.machine_name),
                     program, settings_of(job));
}

std::string directives(const Job& job) {
  const machine::Launch& launch = job.request.machine.launch;
  std::vector<std::string> options = {
      "--job-name=" + job.name(),
      fmt::format("--nodes={}", job.all_nodes()),
      fmt::format("--ntasks-per-node={}", job.ranks_per_node),
  };
  if (launch.cores_per_rank > 0) options.push_back(fmt::format("--cpus-per-task={}", launch.cores_per_rank));
  options.push_back("--time=" + job_time_text(job.time_seconds));
  options.push_back(fmt::format("--signal=USR1@{:.0f}", job.signal_seconds));
  options.emplace_back("--requeue");
  if (job.request.spares > 0) options.emplace_back("--no-kill");
  options.emplace_back("--open-mode=append");
  options.push_back("--chdir=" + shell_word(job.request.working_folder.string()));
  options.emplace_back("--output=%x-%j.log");
  if (!launch.partition.empty()) options.push_back("--partition=" + launch.partition);
  if (!launch.account.empty()) options.push_back("--account=" + launch.account);
  options.insert(options.end(), launch.sbatch_options.begin(), launch.sbatch_options.end());
  // If an option is given twice, sbatch takes the last one.
  const std::vector<std::string>& more = job.request.sbatch_options;
  options.insert(options.end(), more.begin(), more.end());
  return fmt::format("#SBATCH {}\n", fmt::join(options, "\n#SBATCH "));
}

// Slurm gives the script's limits to the ranks, and the doctor asks for so many.
constexpr std::string_view open_files =
    "[ \"$(ulimit -Sn)\" = unlimited ] || [ \"$(ulimit -Sn)\" -ge 65536 ] || ulimit -Sn 65536 2>/dev/null || "
    "ulimit -Sn hard\n";

std::string preparation(const Job& job) {
  const machine::Launch& launch = job.request.machine.launch;
  const JobRecord record{.job = "%j", .log = job.log_file("%j").string(), .steps = job.request.config.train.steps};
  std::string text = fmt::format(
      "run={}\nsteps={}\nrecord={}\nsay() {{ echo \"terrace launch: $*\"; }}\nmkdir -p \"$run\" || exit 2\n"
      "printf '%s\\n' \"${{record//%j/$SLURM_JOB_ID}}\" > \"$run/.{}.new\" && mv \"$run/.{}.new\" \"$run/{}\"\n",
      shell_word(job.run_folder().string()), record.steps, shell_word(text_of(record)), job_record_name,
      job_record_name, job_record_name);
  if (!launch.modules.empty()) {
    text += fmt::format("module load {0} || {{ say \"a module of [launch] could not be loaded: {0}\"; exit 2; }}\n",
                        fmt::join(launch.modules, " "));
  }
  for (const std::string& value : environment_of(job)) text += "export " + quoted_value(value) + "\n";
  // With sbatch --export=NONE, or SBATCH_EXPORT, srun would keep all of this from the ranks. Ranks end together;
  // without a limit srun waits for the ranks of a lost node until the job's time is over.
  return text + "export SLURM_EXPORT_ENV=ALL SLURM_WAIT=${SLURM_WAIT:-300}\n" + std::string(open_files);
}

// Copies the archive to each node and unpacks it there. A copy that failed may have left a part of the file.
std::string spreading(const Job& job) {
  if (job.request.archive.empty()) return "";
  const std::string& disk = job.request.machine.launch.node_disk;
  return fmt::format(
      R"(installed="{0}/terrace-$SLURM_JOB_ID"
once_a_node() {{ timeout "$1" srun --mpi=none --nodes={1} --ntasks={1} --ntasks-per-node=1 "${{@:2}}"; }}
sbcast --force --preserve {2} "$installed.tar" &&
  once_a_node 600 bash -c 'mkdir -p "$0" && tar xf "$0.tar" -C "$0" --strip-components=1 &&
    rm "$0.tar" && test -x "$0/bin/terrace"' "$installed" ||
  {{ say "not every node has a copy of the program: the archive must hold one folder, with bin/terrace in it: "{2}
    once_a_node 20 rm -rf "$installed" "$installed.tar"; exit 1; }}

)",
      disk.empty() ? "/tmp" : disk, job.all_nodes(), shell_word(job.request.archive));
}

// With the options of a step; `line_end` divides a long command of a script.
std::string srun(const Job& job, const std::string& step_options, std::string_view line_end) {
  const machine::Launch& launch = job.request.machine.launch;
  std::string text = "srun" + step_options;
  if (!launch.mpi.empty()) text += " --mpi=" + launch.mpi;
  text += fmt::format(" --nodes={} --ntasks={} --ntasks-per-node={}", job.request.nodes, job.ranks, job.ranks_per_node);
  // Slurm 22.05 and later does not take it from sbatch.
  if (launch.cores_per_rank > 0) text += fmt::format(" --cpus-per-task={}", launch.cores_per_rank);
  for (const std::string& option : launch.srun_options) text += " " + option;
  if (!launch.rank_environment.empty()) {
    std::string values;
    for (const std::string& value : launch.rank_environment) values += "export " + quoted_value(value) + "; ";
    text += fmt::format("{}bash -c '{}exec \"$@\"' rank", line_end, values);
  }
  return fmt::format("{}{}{}", text, line_end, training_command(job));
}

// The removal is limited to 20 seconds, since the job may end within a minute and has to be put back into the queue
// before.
constexpr std::string_view removal = "once_a_node 20 rm -rf \"$installed\"\n";

// The step of the newest complete checkpoint.
constexpr std::string_view newest_step = R"(newest_step() {
  local newest=0 marker step
  for marker in "$run"/step_*/COMPLETE; do
    [ -e "$marker" ] || continue
    step=${marker%/COMPLETE}
    step=$((10#${step##*/step_}))
    if [ "$step" -gt "$newest" ]; then newest=$step; fi
  done
  echo "$newest"
}
)";

// Where srun loses ranks with their node or step, it ends with code 0, or with one of its own that means something else
// here; the run itself says how it ended, and a run that began in this job and says nothing was ended from outside.
constexpr std::string_view how_it_ended = R"sh(# A key of what the run keeps of its process.
said() { sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$run/.process.json" 2>/dev/null | head -n 1; }
has_finished() { [ "$(said state)" = finished ] && [ "$(said step)" -ge "$steps" ]; }
began() { [ "$(process_file)" != "$began_with" ]; }
last_step() {
  local step
  step=$(tail -c 65536 "$run/metrics.jsonl" 2>/dev/null | sed -n 's/.*"step": *\([0-9]*\).*/\1/p' | tail -n 1)
  echo "${step:-0}"
}
if [ "$code" -eq 0 ] && ! has_finished; then sleep 5; fi  # another node's file may be seen a moment later
if [ "$code" -eq 0 ] && ! has_finished; then
  if began && [ "$(said state)" = stopped ]; then code=4; else code=5; fi
  say "srun ended with exit code 0, but the run has made $(last_step) of $steps steps: taken for exit code $code"
elif [ "$code" -ge 1 ] && [ "$code" -le 3 ] && began && [ "$(said state)" = running ]; then
  say "srun ended with exit code $code, but the run, which has made $(last_step) of $steps steps, did not end by itself: taken for exit code 5"
  code=5
fi
)sh";

constexpr std::string_view end_of_link = R"(after=$(newest_step)

if [ "$code" -eq 0 ]; then
  say "the run has made all its steps"
  exit 0
fi
if [ "$code" -ne 4 ] && [ "$code" -ne 5 ] && [ "$code" -lt 128 ]; then
  say "training ended with exit code $code, which another job would not change: not requeued"
  exit "$code"
fi
if [ "$after" -le "$before" ]; then
  say "no progress: the newest checkpoint was of step $before when this job began and is of step $after now (exit code $code): not requeued"
  exit "$code"
fi
say "step $before to step $after, exit code $code: back into the queue"
scontrol requeue "$SLURM_JOB_ID" || say "it could not be requeued; submit the script again to continue"
exit "$code"
)";

constexpr std::string_view end_of_job = R"(case "$code" in
  0) say "the run has made all its steps" ;;
  4) say "the run was stopped and saved; submit the script again to continue" ;;
  5) say "ranks or their node failed (exit code 5); submit the script again to continue from the newest checkpoint" ;;
  *) say "training ended with exit code $code" ;;
esac
exit "$code"
)";

}  // namespace

std::string slurm_script(const Job& job, const std::string& command) {
  const bool chain = job.request.until_done;
  std::string text = fmt::format("#!/bin/bash\n# {}\n", command);
  text += directives(job) + "\n" + preparation(job) + "\n" + spreading(job);
  if (chain) text += fmt::format("{}\nbefore=$(newest_step)\n", newest_step);
  text += "process_file() { cat \"$run/.process.json\" 2>/dev/null; }\nbegan_with=$(process_file)\n";
  text += (job.request.spares > 0 ? supervisor_command(job) : srun(job, "", " \\\n  ")) + "\ncode=$?\n";
  if (!job.request.archive.empty()) text += removal;
  return fmt::format("{}\n{}{}", text, how_it_ended, chain ? end_of_link : end_of_job);
}

namespace {

std::string mpirun(const Job& job, const std::string& hosts) {
  const machine::Launch& launch = job.request.machine.launch;
  std::string text = fmt::format("mpirun -n {}{} --map-by ppr:{}:node", job.ranks, hosts, job.ranks_per_node);
  if (launch.cores_per_rank > 0) text += fmt::format(":PE={}", launch.cores_per_rank);
  for (const std::string& value : environment_of(job)) text += " -x " + quoted_value(value);
  return text + " " + training_command(job);
}

}  // namespace

std::string mpirun_command(const Job& job) { return mpirun(job, "") + "\n"; }

std::string ranks_command(const Job& job, const std::vector<std::string>& nodes) {
  if (!job.request.with_slurm) {
    std::vector<std::string> hosts;
    for (const std::string& node : nodes) hosts.push_back(fmt::format("{}:{}", node, job.ranks_per_node));
    return "exec " + mpirun(job, " --host " + shell_word(fmt::format("{}", fmt::join(hosts, ","))));
  }
  std::string text = "export SLURM_EXPORT_ENV=ALL; ";
  for (const std::string& value : environment_of(job)) text += "export " + quoted_value(value) + "; ";
  // Steps overlap, since the keepers have steps on the same cores, and one on a lost node may not have ended. Ranks end
  // together, so those that are there 20 s after the first one do not know of its end.
  const std::string list = shell_word(fmt::format("{}", fmt::join(nodes, ",")));
  return text + "exec " + srun(job, " --overlap --wait=20 --nodelist=" + list, " ");
}

std::string keeper_command(const Job& job, const std::string& node) {
  const std::string keeper =
      fmt::format("{} keep-node {} --memory {}", program_of(job.request), shell_word(job.run_folder().string()),
                  shell_word(job.request.config.checkpoint.memory_folder));
  if (job.request.with_slurm) {
    return fmt::format("exec srun --overlap --mpi=none --nodes=1 --ntasks=1 --nodelist={} {}", shell_word(node),
                       keeper);
  }
  return fmt::format("exec mpirun -n 1 --host {}:1 {}", shell_word(node), keeper);
}

}  // namespace terrace::launch
