"""Tests launch and status as a shell sees them, and jobs that they submit to a Slurm of this test's own: stopped by a signal,
put back into the queue, resumed and ended, and chains that must not go on."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "house"))
import slurm  # noqa: E402
from commands_test import SOURCE, TERRACE, FinishedRun, prepare_corpus, terrace  # noqa: E402
from launched_jobs import CLUSTER, MPI, Launching, SlurmJobs  # noqa: E402


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

    def test_asks_slurm_for_nodes_of_few_groups_of_the_network(self):
        script = self.expect(0, self.launch(self.write_files(self.scratch()), "--switches", "1@12:00:00")).stdout
        self.assertIn("\n#SBATCH --switches=1@12:00:00\n", script)

    def test_a_run_that_trains_now_needs_its_nodes_and_no_job(self):
        folder = self.write_files(self.scratch())
        run = ("--with", "mpirun", "--run")
        self.expect(2, self.launch(folder, *run), "--run with mpirun needs the nodes, those that train first: --hosts A,B,C")
        self.expect(2, self.launch(folder, "--run"), "this is no job of Slurm")
        self.expect(2, self.launch(folder, "--run", "--hosts", "a"), "Slurm names the nodes of its jobs; add --with mpirun")
        self.expect(2, self.launch(folder, "--with", "mpirun", "--spares", 1), "--spares with --with mpirun needs --run")
        self.expect(2, self.launch(folder, "--with", "mpirun", "--hosts", "a"), "--run")
        self.expect(2, self.launch(folder, *run, "--hosts", "a,b,c"), "--nodes 1 and --spares 0 are 1 node, and 3 are there: a, b, c; "
                    "with these use --nodes 1 --spares 2")  # fmt: skip
        self.expect(2, self.launch(folder, *run, "--hosts", "a,a", "--spares", 1), "node a is named twice")
        (folder / "nodes.txt").write_text("# none\n")
        self.expect(2, self.launch(folder, *run, "--hostfile", "nodes.txt"), "nodes.txt names no host")
        for option in (("--json",), ("--submit",), ("--until-done",), ("--time", "10"), ("--signal-before", "60")):
            self.expect(2, self.launch(folder, "--run", *option), f"--run trains now, and {option[0]} ")

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
        for option in ("--qos", "--mem", "--exclude", "--switches", "--mail-user", "--partition"):
            self.expect(2, self.launch(folder, "--with", "mpirun", option, "1"), f"{option} needs Slurm")
        self.expect(2, self.launch(folder, "--mem", "4 GB"), 'what sbatch is given has "--mem=4 GB"')
        sets = ("--set", "train.global_batch=16", "--set", "train.precision=bf16")
        self.expect(2, self.launch(folder, *sets, "--submit", nodes=2, machine="lumi"), "lumi takes no job without an account")
        self.assertEqual(json.loads(self.launch(folder, "--time", "soon", "--json").stdout)["exit_code"], 2)
        self.assertFalse((folder / "run").exists())

    def test_best_launches_the_fastest_layout_and_says_which(self):
        folder = self.write_files(self.scratch())
        # Three samples for each rank, which micro-batches of two do not divide.
        sets = ("--set", "train.global_batch=6", "--set", "train.micro_batch=2")
        refused = self.expect(2, self.launch(folder, *sets), "train.micro_batch = 2 does not divide")
        self.assertIn("--best launches the fastest layout that fits", refused.stderr)
        # Values that --set gives are kept.
        kept = self.expect(0, self.launch(folder, *sets, "--best"), "the fastest of ", "layout.tensor=2")
        self.assertIn(" --set train.micro_batch=2 --set layout.tensor=2 --resume auto", kept.stdout)
        (folder / "run.toml").write_text((folder / "run.toml").read_text().replace("[train]\n", "[train]\nmicro_batch = 2\n"))
        launched = self.expect(0, self.launch(folder, *sets[:2], "--best"), "the fastest of ")
        chosen = re.search(r"run\.toml((?: --set \S+)+) --resume auto", launched.stdout)[1]
        self.assertRegex(chosen, r"--set train\.micro_batch=[13] ?")
        self.assertIn(" --best ", launched.stdout.split("\n#SBATCH")[0])
        # The launched layout is the one that terrace plan finds.
        plan = self.expect(0, terrace("plan", "run.toml", "--machine", "ours.toml", "--devices", 2, *sets[:2], "--best", "--json", folder=folder))
        best = json.loads(plan.stdout)["layouts"][0]["set"]
        self.assertEqual(sorted(shlex.split(chosen)[1::2]), sorted(["train.global_batch=6", *best]))
        limited = self.expect(0, self.launch(folder, *sets[:2], "--best", "--limit", "micro_batch == 1"))
        self.assertIn("train.micro_batch=1 ", limited.stdout)

    def test_a_job_without_modules_says_so(self):
        folder = self.write_files(self.scratch())
        sets = ("--set", "train.global_batch=16", "--set", "train.precision=bf16", "--account", "A1")
        self.expect(0, self.launch(folder, *sets, nodes=2, machine="lumi"), "the job loads no modules, since ", "plug-in")
        named = self.expect(0, self.launch(folder, *sets, "--module", "rocm", "--module", "aws-ofi-rccl", nodes=2, machine="lumi"))
        self.assertNotIn("no modules", named.stderr)
        self.assertIn("module load rocm aws-ofi-rccl || ", named.stdout)
        self.expect(2, self.launch(folder, *sets, "--module", "rocm; rm", nodes=2, machine="lumi"), "--module has ")

    def test_the_script_in_the_page_on_training_gives_ranks_their_cores(self):
        text = (SOURCE / "docs/training.md").read_text()
        script = next(block for block in re.findall(r"```bash\n(.*?)```", text, re.S) if "#SBATCH" in block)
        # Slurm 22.05 and later does not take them from sbatch.
        for line in script.split("\n"):
            if line.startswith("srun"):
                self.assertIn(" --cpus-per-task=", line)

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
class UnderSlurm(SlurmJobs):
    timed = {}  # folders and jobs that Slurm sends the signal

    def setUp(self):
        # Their time is over after a minute or two, in which the other tests run.
        if not UnderSlurm.timed:
            UnderSlurm.timed = {"saves": self.submit_timed("trap 'checkpoint 5; exit 4' USR1; sleep 300 & wait", "2"),
                                "hangs": self.submit_timed("checkpoint 5; trap '' USR1 TERM; sleep 300", "1")}  # fmt: skip

    def submit_timed(self, first_start, minutes):
        scratch = tempfile.TemporaryDirectory()
        self.addClassCleanup(scratch.cleanup)
        folder = self.planned(first_start, "finish", folder=pathlib.Path(scratch.name))
        return folder, self.submit(folder, "--until-done", "--time", minutes, "--signal-before", "30", "--program", folder / "program")

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
        # Slurm sends this signal at the end of the job's time.
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
        # The metrics are those of a run that never stopped: every step once.
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
        folder = self.planned("checkpoint 3; exit 5", "exit 5", "finish")
        log = self.ended(folder, self.submit(folder, "--until-done", "--program", folder / "program"))
        self.assertIn("step 0 to step 3, exit code 5: back into the queue", log)
        self.assertIn("no progress: the newest checkpoint was of step 3 when this job began and is of step 3 now (exit code 5)", log)
        self.assertEqual((folder / "starts").read_text(), "2\n")

    def test_a_refused_configuration_is_not_requeued(self):
        for code in (2, 3):
            folder = self.planned(f"checkpoint 1; exit {code}", "finish")
            job = self.submit(folder, "--until-done", "--program", folder / "program")
            self.assertIn(f"training ended with exit code {code}, which another job would not change: not requeued", self.ended(folder, job))
            self.assertEqual((folder / "starts").read_text(), "1\n")
            status = self.status(folder)
            self.assertEqual(status["state"], "failed")
            self.assertIn(f"job {job} ended before the run began", status["reason"])
            self.assertIn("not requeued", status["last_words"])

    def test_a_job_that_is_no_chain_ends_with_the_run(self):
        folder = self.planned("checkpoint 1; exit 4", "finish")
        log = self.ended(folder, self.submit(folder, "--program", folder / "program"))
        self.assertIn("the run was stopped and saved; submit the script again to continue", log)
        self.assertEqual((folder / "starts").read_text(), "1\n")

    def archive(self, folder):
        """Of an installation whose program says from where and how it was started."""
        program = folder / "installed/terrace/bin/terrace"
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/bash\necho "rank $SLURM_PROCID trains by $0 $*"\n'
                           'printf \'  "state": "finished",\\n  "step": 4\\n\' > run/.process.json\n')
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

    def test_ranks_have_the_environment_of_the_machine_whatever_sbatch_exports(self):
        for environment, more in (({"SBATCH_EXPORT": "NONE"}, ()), ({}, ("--sbatch-option=--export=NONE",)),
                                  ({"SLURM_EXPORT_ENV": "NONE"}, ()), ({}, ("--sbatch-option=--export=HOME",))):  # fmt: skip
            folder = self.planned("finish")
            # The configuration of this Slurm stands where no Slurm looks by itself.
            named = f'environment = ["SLURM_CONF={self.slurm.environment["SLURM_CONF"]}", '
            (folder / "ours.toml").write_text((folder / "ours.toml").read_text().replace("environment = [", named, 1))
            job = self.submit(folder, *more, "--program", folder / "program", **environment)
            log = self.ended(folder, job)
            self.assertIn(f"rank 0 of job {job}, one node: yes", log, f"{environment} {more}")
            self.assertIn("the run has made all its steps", log)

    def test_options_reach_sbatch_and_a_held_job_is_said_to_be_held(self):
        folder = self.planned("finish")
        host = self.slurm.host
        job = self.submit(folder, "--mem", "1M", "--nodelist", host, "--mail-type", "END", "--mail-user", "ada@example.org",
                          "--sbatch-option=--hold", "--program", folder / "program")  # fmt: skip
        shown = self.slurm.ask("scontrol", "show", "job", job)
        for part in ("MinMemoryNode=1M", f"ReqNodeList={host}", "MailUser=ada@example.org MailType=END"):
            self.assertIn(part, shown)
        script = (folder / "run/job.sh").read_text()
        self.assertIn(" --mem 1M ", script.split("\n")[1])
        self.assertEqual(self.status(folder)["state"], "held")
        self.assertEqual(self.status(folder)["reason"], f"job {job} is PENDING (JobHeldUser): scontrol release {job} lets it begin")
        self.slurm.ask("scontrol", "release", job)
        self.assertIn("the run has made all its steps", self.ended(folder, job))
        folder = self.planned("finish")
        refused = self.launch(folder, "--submit", "--exclude", host, "--program", folder / "program", environment=self.environment())
        self.expect(2, refused, "sbatch did not take ", "not available")

    def test_what_sbatch_refuses_is_said_and_no_job_is_recorded(self):
        folder = self.planned("finish")
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
            # terrace launch refuses it before sbatch could.
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
