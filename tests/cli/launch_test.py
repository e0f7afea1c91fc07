"""Tests launch and status as a shell sees them, and jobs that they submit to a Slurm of this test's own: stopped by a signal,
put back into the queue, resumed and ended, and chains that must not go on."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "house"))
import slurm  # noqa: E402
from commands_test import SOURCE, TERRACE, TINY, CommandTest, FinishedRun, prepare_corpus, terrace  # noqa: E402

MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
}  # fmt: skip

# A cluster of one's own: nodes of two ranks on a core each.
CLUSTER = """name = "ours"
[device]
name = "a core"
memory = "1 GiB"
memory_bandwidth = "5 GB/s"
kernel_time = "3 us"
launch_time = "0 us"
[device.fp32]
peak = "60 GFLOP/s"
achievable = "40 GFLOP/s"
[[tiers]]
name = "node"
devices = 2
link_bandwidth = "4 GB/s"
latency = "2 us"
[[tiers]]
name = "network"
devices = 8
link_bandwidth = "1 GB/s"
latency = "20 us"
[storage]
node_bandwidth = "1 GB/s"
total_bandwidth = "1 GB/s"
[launch]
partition = "test"
cores_per_rank = 1
environment = ["SEEN_BY_ALL=$SLURM_JOB_ID"]
one_node_environment = ["SEEN_ON_ONE_NODE=yes"]
rank_environment = ["SEEN_BY_RANK=$SLURM_LOCALID"]
"""

# Stands for terrace train where a test needs an exit code of its choice: each start runs the next line of `plan`, in which
# `checkpoint N` makes a checkpoint as a run does. One rank counts the starts and does it; the other follows its exit code.
PROGRAM = """#!/bin/bash
folder=$(dirname "$0")
cd "$folder" || exit 1
checkpoint() { mkdir -p "$(printf 'run/step_%08d' "$1")"; touch "$(printf 'run/step_%08d/COMPLETE' "$1")"; }
start=$(($(cat starts 2>/dev/null) + 1))
if [ "$SLURM_LOCALID" = 1 ]; then sleep 0.5; exit 0; fi
echo "$start" > starts
echo "rank $SEEN_BY_RANK of job $SEEN_BY_ALL, one node: $SEEN_ON_ONE_NODE"
eval "$(sed -n "${start}p" plan)"
"""


class Launching(CommandTest):
    def write_files(self, folder):
        (folder / "run.toml").write_text(TINY.replace("steps = 4", "steps = 4\ncheck_memory = false"))
        (folder / "ours.toml").write_text(CLUSTER)
        return folder

    def launch(self, folder, *more, nodes=1, machine="ours.toml", environment=None):
        return terrace("launch", "run.toml", "--nodes", nodes, "--machine", machine, *more, folder=folder,
                       **(environment or {}))


class Printing(Launching):
    def test_prints_a_script_that_bash_reads_and_json_with_its_numbers(self):
        folder = self.write_files(self.scratch())
        script = self.expect(0, self.launch(folder, "--time", "0:30:00", "--set", "train.steps=8"), "2 ranks on 1 node of ours").stdout
        self.assertEqual(subprocess.run(["bash", "-n"], input=script, text=True).returncode, 0)
        for part in ("#SBATCH --time=00:30:00\n", "#SBATCH --ntasks-per-node=2\n", "#SBATCH --partition=test\n",
                     f"#SBATCH --chdir={folder}\n", f"{TERRACE} train run.toml --set train.steps=8 --resume auto\n",
                     "# terrace launch run.toml --nodes 1 --machine ours.toml --time 0:30:00 --set train.steps=8\n"):  # fmt: skip
            self.assertIn(part, script)
        self.assertEqual(list(folder.glob("run/*")), [])
        printed = json.loads(self.launch(folder, "--time", "0:30:00", "--set", "train.steps=8", "--json").stdout)
        self.assertEqual(printed["script"], script)
        self.assertEqual((printed["ranks"], printed["time_seconds"], printed["job"]), (2, 1800, None))

    def test_built_in_machines_have_their_scripts(self):
        folder = self.write_files(self.scratch())
        sets = ("--set", "train.global_batch=16", "--set", "train.precision=bf16")
        for machine, part in (("frontier", "--gpu-bind=closest"), ("lumi", "ROCR_VISIBLE_DEVICES"), ("dgx-h100", "--gpus-per-node=8")):
            result = self.expect(0, self.launch(folder, *sets, "--account", "A1", nodes=2, machine=machine))
            self.assertIn(part, result.stdout)
            self.assertIn("#SBATCH --account=A1\n", result.stdout)
            self.assertEqual(subprocess.run(["bash", "-n"], input=result.stdout, text=True).returncode, 0)

    def test_says_that_a_gpu_is_predicted_where_this_program_or_the_run_has_none(self):
        folder = self.write_files(self.scratch())
        sets = ("--set", "train.global_batch=16", "--set", "train.precision=bf16", "--account", "A1")
        way_out = "terrace calibrate --device cpu --output FILE"
        self.expect(0, self.launch(folder, *sets, nodes=2, machine="frontier"),
                    "this program has no kernels for one die (GCD) of an AMD Instinct MI250X", way_out)  # fmt: skip
        self.expect(0, self.launch(folder, *sets, "--set", "train.device=cpu", nodes=2, machine="dgx-h100"), 'train.device = "cpu"', way_out)
        other = self.expect(0, self.launch(folder, *sets, "--program", "/opt/terrace", nodes=2, machine="frontier"))
        self.assertNotIn(way_out, other.stderr)  # what that program has is not known
        self.assertNotIn(way_out, self.expect(0, self.launch(folder)).stderr)

    def test_refuses_before_anything_is_written(self):
        folder = self.write_files(self.scratch())
        (folder / "archive.tar").touch()
        self.expect(2, self.launch(folder, "--sbcast", "none.tar"), "--sbcast none.tar is no file; make it with tar czf none.tar -C ")
        self.expect(2, self.launch(folder, "--sbcast", "archive.tar", "--program", "terrace"), "leave one of them out")
        self.expect(2, self.launch(folder, "--sbcast", "archive.tar", "--with", "mpirun"), "--sbcast needs Slurm")
        self.expect(2, self.launch(folder, "--set", "model.heads=3"), "heads")
        self.expect(2, self.launch(folder, nodes=9), "more than the 8 devices of ours")
        self.expect(2, self.launch(folder, "--time", "soon"), '--time "soon" is no length of time; write 12:00:00')
        self.expect(2, self.launch(folder, machine="our"), "there is no machine \"our\"")
        self.expect(3, self.launch(folder, "--set", "model.width=8192", "--set", "model.layers=40"), "needs ")
        self.expect(2, self.launch(folder, "--with", "mpirun", "--submit"), "--submit needs Slurm")
        self.expect(2, self.launch(folder, "--with", "mpirun", "--time", "10"), "train.time_limit")
        sets = ("--set", "train.global_batch=16", "--set", "train.precision=bf16")
        self.expect(2, self.launch(folder, *sets, "--submit", nodes=2, machine="lumi"), "lumi takes no job without an account")
        self.assertEqual(json.loads(self.launch(folder, "--time", "soon", "--json").stdout)["exit_code"], 2)
        self.assertFalse((folder / "run").exists())

    def test_without_sbatch_says_so(self):
        folder = self.write_files(self.scratch())
        empty = folder / "empty"
        empty.mkdir()
        for program in ("bash", "sh", "env"):
            (empty / program).symlink_to(f"/bin/{program}")
        result = self.launch(folder, "--submit", environment={"PATH": str(empty)})
        self.expect(2, result, "there is no sbatch on this machine")


class WithMpirun(FinishedRun):
    def test_the_printed_command_trains_and_status_follows_the_run(self):
        folder = self.folder
        disk = folder / "disk"
        disk.mkdir()
        (folder / "ours.toml").write_text(CLUSTER.replace("cores_per_rank = 1\n", f'node_disk = "{disk}"\nnode_disk_size = "64 MB"\n'))
        run = folder / "by_mpirun"
        result = self.expect(0, terrace("launch", "run.toml", "--nodes", 1, "--machine", "ours.toml", "--with", "mpirun", "--set",
                                        "checkpoint.folder=by_mpirun", folder=folder))  # fmt: skip
        self.assertTrue(result.stdout.startswith('mpirun -n 2 --map-by ppr:2:node -x SEEN_BY_ALL="$SLURM_JOB_ID" '), result.stdout)
        self.expect(2, terrace("status", run), "is no folder")
        trained = subprocess.run(["bash", "-c", result.stdout], cwd=folder, env=os.environ | MPI, capture_output=True, text=True, timeout=240)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertRegex(self.expect(0, terrace("status", run)).stdout,
                         rf"^{run}  done  step 4 of 4  loss \d\.\d+  [\d,]+ tokens/s\n$")  # fmt: skip
        # The data were read from the node's disk.
        steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        self.assertGreater(max(step.get("stage_read_bytes", 0) for step in steps), 0)

    def test_status_tells_a_stopped_a_running_and_a_killed_run_apart(self):
        folder = self.folder
        stopped = terrace("train", "run.toml", "--set", "checkpoint.folder=stopped", "--stop-after", 2, folder=folder)
        self.assertEqual(stopped.returncode, 4, stopped.stderr)
        running = subprocess.Popen([TERRACE, "train", "run.toml", "--set", "checkpoint.folder=killed", "--set", "train.steps=1000000",
                                    "--set", "train.evaluate_every=0"], cwd=folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not (folder / "killed/metrics.jsonl").exists():
                time.sleep(0.1)
            time.sleep(0.5)
            runs = json.loads(self.expect(0, terrace("status", "run", "stopped", "killed", "--json", folder=folder)).stdout)["runs"]
        finally:
            running.kill()
            running.wait()
        self.assertEqual([run["state"] for run in runs], ["done", "stopped", "running"])
        self.assertEqual([run["steps"] for run in runs], [4, 4, 1000000])
        self.assertGreater(runs[2]["seconds_left"], 0)
        killed = json.loads(terrace("status", "killed", "--json", folder=folder).stdout)["runs"][0]
        self.assertEqual(killed["state"], "failed")
        self.assertIn("has died without a word", killed["reason"])

    def test_status_says_why_a_run_failed(self):
        folder = self.folder
        failed = terrace("train", "run.toml", "--set", "checkpoint.folder=failed", "--set", "optimizer.learning_rate=1e30", folder=folder)
        self.assertEqual(failed.returncode, 1, failed.stderr)
        run = json.loads(terrace("status", "failed", "--json", folder=folder).stdout)["runs"][0]
        self.assertEqual(run["state"], "failed")
        self.assertIn(run["reason"].split("\n")[0], failed.stderr)

    def test_status_refuses_folders_that_hold_no_run_by_name(self):
        folder = self.folder
        (folder / "nothing").mkdir(exist_ok=True)
        self.expect(2, terrace("status", "run", "nothing", "missing", folder=folder), "nothing holds no run", "missing is no folder")


@unittest.skipIf(slurm.why_not(), slurm.why_not())
class UnderSlurm(Launching):
    timed = {}  # folders and jobs that Slurm sends the signal

    @classmethod
    def setUpClass(cls):
        own = slurm.Slurm(cpus=8)
        cls.slurm = own.__enter__()
        cls.addClassCleanup(own.__exit__)

    def setUp(self):
        # Their time is over after a minute or two, in which the other tests run.
        if not UnderSlurm.timed:
            UnderSlurm.timed = {"saves": self.submit_timed("trap 'checkpoint 5; exit 4' USR1; sleep 300 & wait", "2"),
                                "hangs": self.submit_timed("checkpoint 5; trap '' USR1 TERM; sleep 300", "1")}  # fmt: skip

    def submit_timed(self, first_start, minutes):
        scratch = tempfile.TemporaryDirectory()
        self.addClassCleanup(scratch.cleanup)
        folder = self.planned(first_start, "exit 0", folder=pathlib.Path(scratch.name))
        return folder, self.submit(folder, "--until-done", "--time", minutes, "--signal-before", "30", "--program", folder / "program")

    def environment(self):
        return MPI | {name: self.slurm.environment[name] for name in ("SLURM_CONF", "TERRACE_SLURM_FOLDER")}

    def status(self, folder):
        result = self.expect(0, terrace("status", "run", "--json", folder=folder, **self.environment()))
        return json.loads(result.stdout)["runs"][0]

    def wait_for(self, folder, condition, what, seconds=150):
        """The first status for which the condition holds."""
        deadline, status = time.monotonic() + seconds, None
        while time.monotonic() < deadline:
            status = self.status(folder)
            if condition(status):
                return status
            time.sleep(0.3)
        logs = "\n".join(path.read_text() for path in folder.glob("*.log"))
        self.fail(f"no {what} within {seconds} s: {status}\n{logs}")

    def submit(self, folder, *more):
        result = self.expect(0, self.launch(folder, "--submit", *more, environment=self.environment()))
        return re.match(r"job (\d+): see terrace status ", result.stdout)[1]

    def planned(self, *lines, folder=None):
        """A folder with the program that does what the lines say, one at each start."""
        folder = self.write_files(folder or self.scratch())
        (folder / "program").write_text(PROGRAM)
        (folder / "program").chmod(0o755)
        (folder / "plan").write_text("\n".join(lines) + "\n")
        return folder

    def ended(self, folder, job):
        """The log of the job once it is over and does not wait in the queue."""
        def is_over(_):
            states = self.slurm.ask("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}").split()
            return bool(states) and states[0] not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")
        self.wait_for(folder, is_over, "end of the job")
        return (folder / f"terrace-run-{job}.log").read_text()

    def test_a_run_is_stopped_by_the_signal_resumed_by_the_chain_and_ends(self):
        folder, steps = self.write_files(self.scratch()), 4500
        prepare_corpus(folder)
        # Half a minute of steps, so that the run is caught in the middle, beside other tests too.
        sets = ("--set", f"train.steps={steps}", "--set", "train.evaluate_every=0", "--set", "train.log_every=300", "--set",
                "model.width=64", "--set", "train.global_batch=64")  # fmt: skip
        job = self.submit(folder, "--until-done", "--time", "30", *sets)
        again = self.launch(folder, "--submit", *sets, environment=self.environment())
        self.expect(2, again, f"job {job} trains ", f"scancel {job}")
        running = self.wait_for(folder, lambda run: run["state"] == "running" and run["step"] >= 20, "running")
        self.assertEqual((running["job"], running["steps"]), (job, steps))
        # As Slurm does at the end of the job's time.
        self.slurm.ask("scancel", "--signal=USR1", job)
        queued = self.wait_for(folder, lambda run: run["state"] == "queued", "queued")
        self.assertGreaterEqual(queued["step"], running["step"])
        self.assertIn(f"job {job} is PENDING", queued["reason"])
        done = self.wait_for(folder, lambda run: run["state"] == "done", "done", 240)
        self.assertEqual(done["step"], steps)
        log = self.ended(folder, job)
        self.assertIn("stopped on request after step ", log)
        self.assertRegex(log, r"terrace launch: step 0 to step \d+, exit code 4: back into the queue")
        self.assertRegex(log, r"continues from .*run/step_")
        self.assertEqual(log.rstrip().split("\n")[-1], "terrace launch: the run has made all its steps")
        # As of a run that never stopped: every step once.
        made = [json.loads(line)["step"] for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(made, list(range(1, steps + 1)))

    def test_slurm_sends_the_signal_before_the_end_and_a_chain_goes_on(self):
        folder, job = self.timed["saves"]
        log = self.ended(folder, job)
        self.assertIn("step 0 to step 5, exit code 4: back into the queue", log)
        self.assertIn("the run has made all its steps", log)
        self.assertIn(f"rank 0 of job {job}, one node: yes", log)

    def test_slurm_ends_a_job_that_does_not_save_in_time(self):
        folder, job = self.timed["hangs"]
        self.assertIn("DUE TO TIME LIMIT", self.ended(folder, job))
        self.assertEqual((folder / "starts").read_text(), "1\n")
        status = self.status(folder)
        self.assertEqual(status["state"], "failed")
        self.assertIn(f"job {job} is TIMEOUT", status["reason"])

    def test_a_failed_rank_is_followed_by_another_job_only_after_progress(self):
        folder = self.planned("checkpoint 3; exit 5", "exit 5", "exit 0")
        log = self.ended(folder, self.submit(folder, "--until-done", "--program", folder / "program"))
        self.assertIn("step 0 to step 3, exit code 5: back into the queue", log)
        self.assertIn("no progress: the newest checkpoint was of step 3 when this job began and is of step 3 now (exit code 5)", log)
        self.assertEqual((folder / "starts").read_text(), "2\n")

    def test_a_refused_configuration_is_not_requeued(self):
        for code in (2, 3):
            folder = self.planned(f"checkpoint 1; exit {code}", "exit 0")
            job = self.submit(folder, "--until-done", "--program", folder / "program")
            self.assertIn(f"training ended with exit code {code}, which another job would not change: not requeued", self.ended(folder, job))
            self.assertEqual((folder / "starts").read_text(), "1\n")
            status = self.status(folder)
            self.assertEqual(status["state"], "failed")
            self.assertIn(f"job {job} ended before the run began", status["reason"])
            self.assertIn("not requeued", status["last_words"])

    def test_a_job_that_is_no_chain_ends_with_the_run(self):
        folder = self.planned("checkpoint 1; exit 4", "exit 0")
        log = self.ended(folder, self.submit(folder, "--program", folder / "program"))
        self.assertIn("the run was stopped and saved; submit the script again to continue", log)
        self.assertEqual((folder / "starts").read_text(), "1\n")

    def archive(self, folder):
        """Of an installation whose program says from where and how it was started."""
        program = folder / "installed/terrace/bin/terrace"
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/bash\necho "rank $SLURM_PROCID trains by $0 $*"\n')
        program.chmod(0o755)
        subprocess.run(["tar", "czf", folder / "terrace.tar.gz", "-C", folder / "installed", "terrace"], check=True)

    def test_an_archive_is_unpacked_on_each_node_and_trains(self):
        folder = self.scratch() / "our runs"
        disk = self.scratch()
        folder.mkdir()
        self.write_files(folder)
        (folder / "ours.toml").write_text(f'{CLUSTER}node_disk = "{disk}"\nnode_disk_size = "1 GB"\n')
        self.archive(folder)
        job = self.submit(folder, "--sbcast", "terrace.tar.gz")
        log = self.ended(folder, job)
        for rank in (0, 1):
            self.assertRegex(log, rf"rank {rank} trains by {disk}/terrace-{job}/bin/terrace train run\.toml "
                                  rf"--set data\.stage={disk} --set data\.stage_bytes=\d+ --resume auto\n")  # fmt: skip
        self.assertEqual(list(disk.iterdir()), [])
        self.assertIn("the run has made all its steps", log)

    def test_an_archive_that_is_damaged_or_of_something_else_trains_nothing(self):
        folder, disk = self.write_files(self.scratch()), self.scratch()
        (folder / "ours.toml").write_text(f'{CLUSTER}node_disk = "{disk}"\nnode_disk_size = "1 GB"\n')
        self.archive(folder)
        whole = (folder / "terrace.tar.gz").read_bytes()
        (folder / "half.tar.gz").write_bytes(whole[: len(whole) // 2])
        subprocess.run(["tar", "czf", folder / "other.tar.gz", "-C", folder, "run.toml"], check=True)
        for archive in ("half.tar.gz", "other.tar.gz"):
            log = self.ended(folder, self.submit(folder, "--until-done", "--sbcast", archive))
            self.assertIn(f"not every node has a copy of the program: the archive must hold one folder, with bin/terrace in it: {archive}", log)
            self.assertNotIn("trains by", log)
            self.assertEqual(list(disk.iterdir()), [])
            self.assertNotIn("requeue", log)

    def test_what_sbatch_refuses_is_said_and_no_job_is_recorded(self):
        folder = self.planned("exit 0")
        result = self.launch(folder, "--submit", "--partition", "none", environment=self.environment())
        self.expect(2, result, "sbatch did not take ", "invalid partition")
        self.assertFalse((folder / "run/job.json").exists())


@unittest.skipIf(slurm.why_not(), slurm.why_not())
class OnNodesWithDevices(Launching):
    """A Slurm with nodes like those of the built-in machines takes their scripts, and refuses what asks for more than they have."""

    @classmethod
    def setUpClass(cls):
        own = slurm.Slurm(device_nodes=True)
        cls.slurm = own.__enter__()
        cls.addClassCleanup(own.__exit__)

    def sbatch(self, folder, script, *options):
        (folder / "job.sh").write_text(script)
        return subprocess.run(["sbatch", "--test-only", *options, folder / "job.sh"], env=self.slurm.environment, capture_output=True, text=True)

    def script(self, folder, machine, *more):
        sets = ("--set", "train.global_batch=16", "--set", "train.precision=bf16", "--account", "A1")
        return self.launch(folder, *sets, *more, nodes=2, machine=machine)

    def test_the_scripts_of_built_in_machines_are_taken_for_the_longest_time_and_not_for_longer(self):
        folder = self.write_files(self.scratch())
        for machine, partition, longest, longer in (("frontier", "batch", "2:00:00", "2:00:01"), ("frontier", "extended", "1-00:00:00", "1-00:01:00"),
                                                    ("lumi", "standard-g", "2-00:00:00", "2-00:01:00")):  # fmt: skip
            script = self.expect(0, self.script(folder, machine, "--partition", partition, "--time", longest)).stdout
            taken = self.sbatch(folder, script)
            self.assertEqual(taken.returncode, 0, f"{machine}: {taken.stderr}\n{script}")
            self.assertIn(" on nodes die[1-2] ", taken.stderr)
            refused = self.sbatch(folder, script, f"--time={longer}")
            self.assertIn("Requested time limit is invalid", refused.stderr)
            # Before sbatch could refuse it.
            self.expect(2, self.script(folder, machine, "--partition", partition, "--time", longer), "give at most that")

    def test_the_default_time_is_taken(self):
        folder = self.write_files(self.scratch())
        script = self.expect(0, self.script(folder, "frontier", "--set", "train.steps=1000000000")).stdout
        self.assertIn("#SBATCH --time=02:00:00\n", script)
        taken = self.sbatch(folder, script)
        self.assertEqual(taken.returncode, 0, taken.stderr)

    def test_frontier_has_no_core_more_for_its_ranks(self):
        folder = self.write_files(self.scratch())
        script = self.expect(0, self.script(folder, "frontier", "--time", "1:00:00")).stdout
        self.assertEqual(self.sbatch(folder, script).returncode, 0)
        self.assertNotEqual(self.sbatch(folder, script, "--cpus-per-task=8").returncode, 0)

    def test_ranks_on_dgx_get_cores_and_not_hardware_threads(self):
        folder = self.write_files(self.scratch())
        script = self.expect(0, self.script(folder, "dgx-h100", "--time", "1:00:00")).stdout
        taken = self.sbatch(folder, script)
        self.assertEqual(taken.returncode, 0, taken.stderr)
        self.assertIn(" on nodes dgx[1-2] ", taken.stderr)
        # 8 ranks of 15 cores are more than the 112 of a node; of 15 threads they would not be.
        self.assertNotEqual(self.sbatch(folder, script, "--cpus-per-task=15").returncode, 0)
        without = script.replace("#SBATCH --hint=nomultithread\n", "")
        self.assertEqual(self.sbatch(folder, without, "--cpus-per-task=15").returncode, 0)


if __name__ == "__main__":
    unittest.main()
