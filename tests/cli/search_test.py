"""Tests searches whose trials are training runs: on threads, under mpirun and as steps of a Slurm job, cut short and
continued, killed and resumed. DeepHyper's own package reads what they wrote."""
import csv
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "house"))
import slurm  # noqa: E402
from commands_test import SOURCE, TERRACE, TINY, CommandTest, prepare_corpus, terrace  # noqa: E402

PYTHON = SOURCE / ".deps/python/bin/python"
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
}  # fmt: skip

HEAD = """[search]
evaluator = "train"
config = "run.toml"
devices = "ranks"
objective = "{objective}"
seed = 5
"""
RANKS = """[parameters.ranks]
type = "ordered"
values = [1, 2]
"""
RATES = """[parameters.optimizer.learning_rate]
type = "real"
range = [1e-5, 1e-1]
log = true
"""


def setUpModule():
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    SearchTest.folder = pathlib.Path(scratch.name)
    prepare_corpus(SearchTest.folder)
    (SearchTest.folder / "run.toml").write_text(TINY)


class SearchTest(CommandTest):
    def space(self, name, objective, more, parameters=RANKS):
        (self.folder / f"{name}.toml").write_text(HEAD.format(objective=objective) + more + parameters)
        return name

    def search(self, name, *more, **environment):
        return terrace("search", f"{name}.toml", "--output", name, *more, folder=self.folder, **ENVIRONMENT | environment)

    def rows(self, name):
        with open(self.folder / name / "results.csv", newline="") as file:
            return list(csv.DictReader(file))

    def figure(self, row, name):
        self.assertNotEqual(row[f"m:{name}"], "", row)
        return float(row[f"m:{name}"])


class Training(SearchTest):
    def test_trials_are_runs_and_the_best_configuration_trains_alike(self):
        name = self.space("layouts", "step_seconds", 'method = "exhaustive"\n', RANKS + """
[parameters.train.micro_batch]
type = "ordered"
values = [1, 3]
""")
        found = json.loads(self.expect(0, self.search(name, "--json")).stdout)
        self.assertEqual((found["trials"], found["failures"]), (4, {"F_layout": 2}))
        for row in self.rows(name):
            if row["p:train.micro_batch"] == "3":
                self.assertEqual(row["objective"], "F_layout")
                self.assertIn("micro_batch = 3", row["m:reason"])
                continue
            self.assertEqual(float(row["objective"]), -self.figure(row, "step_seconds"))
            run = self.folder / name / "trials" / row["job_id"] / "run"
            summary = json.loads(terrace("report", run, "--json").stdout)
            for figure in ("step_seconds", "tokens_per_second", "memory_bytes", "loss", "validation_loss"):
                self.assertEqual(self.figure(row, figure), summary[figure])
            self.assertEqual(list(run.glob("step_*")), [], "checkpoints of trials are removed")
        best = found["best"][0]
        self.expect(0, terrace("train", best["config"], "--set", "checkpoint.folder=best", "--ranks", best["devices"],
                               folder=self.folder))
        summary = json.loads(terrace("report", "best", "--json", folder=self.folder).stdout)
        self.assertEqual(summary["validation_loss"], best["figures"]["validation_loss"])

    def test_trials_fail_with_their_reasons(self):
        name = self.space("limits", "step_seconds", 'method = "exhaustive"\ntrial_time = "20s"\n', """
[parameters.ranks]
type = "ordered"
values = [1]
[parameters.train.steps]
type = "ordered"
values = [4, 100000000]
[parameters.data.tokenizer]
type = "ordered"
values = ["tokenizer.model", "missing.model"]
""")
        self.expect(0, self.search(name, "--trials", "4"))
        reasons = {row["objective"]: row["m:reason"] for row in self.rows(name)}
        self.assertEqual(reasons.get("F_time"), "took longer than 20.0 s")
        self.assertIn("missing.model", reasons["F_layout"])
        name = self.space("memory", "step_seconds", 'trial_memory = "20 MiB"\n')
        self.expect(3, self.search(name), "all 2 trials failed", "F_oom", "more than trial_memory = 20.0 MiB")

    def test_ranks_are_processes_under_mpirun(self):
        name = self.space("mpirun", "step_seconds", 'launcher = "mpirun"\nmethod = "exhaustive"\n')
        self.expect(0, self.search(name))
        two = next(row for row in self.rows(name) if row["p:ranks"] == "2")
        log = (self.folder / name / "trials" / two["job_id"] / "output.log").read_text()
        self.assertIn("2 ranks", log)
        self.assertGreater(self.figure(two, "step_seconds"), 0)

    def test_predictions_propose_and_runs_decide(self):
        parameters = RANKS.replace("[1, 2]", "[1]") + """
[parameters.train.micro_batch]
type = "ordered"
values = [1, 2, 3]
[parameters.train.recompute]
type = "categorical"
values = ["none", "full"]
"""
        name = self.space("predicted", "step_seconds", "", parameters)
        path = self.folder / f"{name}.toml"
        text = path.read_text()
        path.write_text(text.replace('evaluator = "train"', 'evaluator = "simulate"\nmethod = "exhaustive"'))
        every = json.loads(self.expect(0, terrace("search", path, "--json", "--output", "every", folder=self.folder)).stdout)
        path.write_text(text.replace('evaluator = "train"', 'evaluator = ["simulate", "train"]'))
        self.expect(0, self.search(name, "--trials", "3"))
        rows = self.rows(name)
        self.assertEqual(len(rows), 3)
        self.assertEqual({key: rows[0][f"p:{key}"] for key in every["best"][0]["parameters"]},
                         {key: str(value) for key, value in every["best"][0]["parameters"].items()})
        self.assertNotIn("3", [row["p:train.micro_batch"] for row in rows], "what cannot run is not tried")
        self.assertGreater(self.figure(rows[0], "step_seconds"), 0)

    def test_predictions_of_which_none_runs_say_why(self):
        parameters = RANKS + """
[parameters.model.width]
type = "ordered"
values = [32768, 65536]
"""
        name = self.space("none_runs", "step_seconds", "", parameters)
        path = self.folder / f"{name}.toml"
        path.write_text(path.read_text().replace('evaluator = "train"', 'evaluator = ["simulate", "train"]'))
        self.expect(3, self.search(name), "no point of the space is predicted to run on laptop: 4 predictions failed", "F_")

    def test_a_program_that_cannot_train_is_refused_before_the_first_trial(self):
        name = self.space("unknown", "validation_los", "")
        self.expect(2, self.search(name), 'is no figure of a trained trial; use "validation_loss", or another of step_seconds')
        self.assertFalse((self.folder / name).exists())


class Predictions(SearchTest):
    SPACE = """[search]
evaluator = "simulate"
objective = "flops_per_device"
config = "CONFIG"
machine = "frontier"
software = "megatron-deepspeed"
devices = 64
trials = 5
[parameters.layout.pipeline]
type = "ordered"
values = [4, 8, 16]
[parameters.layout.tensor]
type = "ordered"
values = [1, 2, 4, 8]
[derived]
train.global_batch = 320
"""

    def predict(self, output, *more):
        (self.folder / "predicted_space.toml").write_text(self.SPACE.replace("CONFIG", str(SOURCE / "configs/frontier-22b.toml")))
        return terrace("search", "predicted_space.toml", "--output", output, *more, folder=self.folder)

    def test_all_points_are_tried_where_that_takes_seconds_and_the_ties_are_listed(self):
        values = set()
        for seed in (1, 2):
            result = self.expect(0, self.predict(f"all_{seed}", "--seed", seed, "--json"),
                                 "all 12 points that hold the constraints are predicted, in about", "--method bayesian samples")
            found = json.loads(result.stdout)
            self.assertEqual(found["trials"], 12)
            values.add(found["best"][0]["value"])
            rows = self.rows(f"all_{seed}")
            difference = found["best"][0]["figures"]["median_difference"]
            self.assertGreater(difference, 0)
            rates = {row["job_id"]: float(row["objective"]) for row in rows if not row["objective"].startswith("F")}
            tied = {job for job, rate in rates.items() if max(rates.values()) / rate <= 1 + difference}
            self.assertEqual({str(one["job_id"]) for one in found["tied"]}, tied)
            lowest, highest = found["best"][0]["interval"]
            self.assertTrue(lowest < found["best"][0]["value"] < highest)
        self.assertEqual(len(values), 1, "the best point does not depend on the seed")
        text = self.expect(0, self.predict("text")).stdout
        self.assertIn("; all points of the space were evaluated\n", text)
        self.assertIn("as measured", text)
        sampled = self.expect(0, self.predict("sampled", "--method", "bayesian", "--json"))
        self.assertEqual(json.loads(sampled.stdout)["trials"], 5)
        self.assertNotIn("points", sampled.stderr)


class Halving(SearchTest):
    MORE = 'method = "successive_halving"\ntrials = 4\nparallel = 2\n'
    TABLES = RANKS.replace("[1, 2]", "[1]") + RATES + "[halving]\nfirst = 2\nmost = 8\nfactor = 2\n"

    def setUp(self):
        text = TINY.replace("steps = 4", "steps = 8").replace("evaluate_every = 4", "evaluate_every = 2")
        (self.folder / "run.toml").write_text(text)
        self.addCleanup((self.folder / "run.toml").write_text, TINY)

    def expect_whole(self, name):
        rows = self.rows(name)
        reached = [(row["m:trial"], row["m:budget"]) for row in rows]
        self.assertEqual(len(set(reached)), len(reached), "no part of a trial is repeated")
        by_budget = {budget: [row for row in rows if row["m:budget"] == budget] for budget in ("2", "4", "8")}
        self.assertEqual(len(by_budget["2"]), 4)
        self.assertGreaterEqual(len(by_budget["4"]), 2)
        self.assertGreaterEqual(len(by_budget["8"]), 1)
        return by_budget

    def test_the_best_continue_from_their_checkpoints_to_the_losses_of_a_whole_run(self):
        name = self.space("halving", "validation_loss", self.MORE, self.TABLES)
        found = json.loads(self.expect(0, self.search(name, "--json")).stdout)
        rows = self.expect_whole(name)
        best = found["best"][0]
        self.assertEqual(best["budget"], 8)
        run = self.folder / name / "trials" / str(best["trial"]) / "run"
        self.assertEqual(max(path.name for path in run.glob("step_*")), "step_00000008")
        log = (run.parent / "output.log").read_text()
        self.assertEqual(len(re.findall("continues from", log)), 2)
        # A run that was never stopped.
        self.expect(0, terrace("train", best["config"], "--set", "checkpoint.folder=uncut", folder=self.folder))
        uncut = [json.loads(line) for line in (self.folder / "uncut" / "metrics.jsonl").read_text().splitlines()]
        losses = {line["step"]: line["validation_loss"] for line in uncut if "validation_loss" in line}
        for budget in ("2", "4", "8"):
            row = next(row for row in rows[budget] if row["m:trial"] == str(best["trial"]))
            self.assertEqual(self.figure(row, "validation_loss"), losses[int(budget)])

    def test_a_run_that_stops_before_its_budget_has_failed(self):
        name = self.space("cut", "validation_loss", self.MORE, self.TABLES)
        text = (self.folder / "run.toml").read_text()
        (self.folder / "run.toml").write_text(text.replace("[train]\n", '[train]\ntime_limit = 0.001\n'))
        self.expect(3, self.search(name), "F_stopped", "stopped by a signal or train.time_limit after step 1 of 2")

    def test_killed_at_any_moment_it_ends_its_runs_and_resumes(self):
        name = self.space("killed", "validation_loss", self.MORE, self.TABLES)
        for seconds in (1.5, 4):
            child = subprocess.Popen([TERRACE, "search", f"{name}.toml", "--output", name], cwd=self.folder,
                                     env=os.environ | ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(seconds)
            child.send_signal(signal.SIGKILL)
            child.wait()
            for _ in range(100):
                left = subprocess.run(["pgrep", "-f", f"{name}/trials/"], capture_output=True, text=True).stdout
                if not left:
                    break
                time.sleep(0.1)
            self.assertEqual(left, "", "no run outlives its search")
        self.expect(0, self.search(name))
        self.expect_whole(name)


class Stopping(SearchTest):
    SPACE = """[search]
evaluator = "command"
objective = "score"
method = "exhaustive"
command = "[ {x} -lt 2 ] || [ -e go ] || sleep 100; echo '{\\"score\\": '{x}'}' > {result}"
[parameters.x]
type = "integer"
range = [0, 3]
"""

    def test_ctrl_c_without_a_terminal_prints_the_best_so_far_and_goes_on_later(self):
        (self.folder / "stopped.toml").write_text(self.SPACE)
        command = [TERRACE, "search", "stopped.toml", "--output", "stopped"]
        child = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        results = self.folder / "stopped" / "results.csv"
        for _ in range(200):
            if results.exists() and len(results.read_text().splitlines()) == 3:
                break
            time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        printed, said = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 4, said)
        self.assertIn("2 trials", printed)
        self.assertIn("stopped on request after 2 trials; the same command continues the search", said)
        (self.folder / "go").touch()
        result = terrace("search", "stopped.toml", "--output", "stopped", "--json", folder=self.folder)
        self.assertEqual(json.loads(self.expect(0, result).stdout)["trials"], 4)


class Display(SearchTest):
    def shown_on_a_terminal(self, *command):
        """What a command draws on a terminal of 60 columns, one table after the other, and what it prints."""
        terminal, other_end = pty.openpty()
        fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 60, 0, 0))
        child = subprocess.Popen([TERRACE, *command], cwd=self.folder, stderr=other_end, stdout=subprocess.PIPE, text=True)
        os.close(other_end)
        shown = b""
        try:
            while part := os.read(terminal, 4096):
                shown += part
        except OSError:  # the program has closed its end
            pass
        os.close(terminal)
        printed = child.communicate()[0]
        self.assertEqual(child.returncode, 0)
        return re.split(r"\x1b\[\d+A\r\x1b\[J", shown.decode().replace("\r\n", "\n")), printed

    def test_a_terminal_counts_the_trials_of_all_workers(self):
        (self.folder / "counted.toml").write_text('[search]\nevaluator = "command"\nobjective = "score"\nmethod = "exhaustive"\n'
                                                  "command = '''sleep 1; echo '{\"score\": '{x}'}' > {result}'''\n"
                                                  '[parameters.x]\ntype = "integer"\nrange = [1, 10]\n')
        command = ("search", "counted.toml", "--output", "counted", "--join")
        other = subprocess.Popen([TERRACE, *command], cwd=self.folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        tables, printed = self.shown_on_a_terminal(*command)
        self.assertEqual(other.wait(timeout=60), 0)
        self.assertTrue(any(re.match(r"trials [3-9] of 10 of 2 workers, 0 failed, ", table) for table in tables), tables)
        self.assertRegex(printed, "10 trials: 10 done, 0 failed.*; [2-8] of them by other workers")

    def test_a_terminal_shows_a_table_while_the_search_runs(self):
        (self.folder / "shown.toml").write_text('[search]\nevaluator = "command"\nobjective = "score"\nmethod = "exhaustive"\n'
                                                "command = '''sleep 1; echo '{\"score\": '{x}'}' > {result}'''\n"
                                                '[parameters.x]\ntype = "integer"\nrange = [1, 4]\n')
        tables, printed = self.shown_on_a_terminal("search", "shown.toml", "--output", "shown")
        self.assertGreater(len(tables), 3)
        self.assertEqual(tables[-1], "", "the table is removed at the end")
        for table in tables[:-1]:
            self.assertLessEqual(max(map(len, table.splitlines())), 60, table)
        late = r"(?s)trials 3 of 4, 0 failed, .*\n +score +trial +x\n1 +3 +2 +3\n.*trial 3 since .*: x 4\n"
        self.assertTrue(any(re.fullmatch(late, table) for table in tables), tables)
        self.assertIn("4 trials: 4 done, 0 failed", printed)


class OtherPrograms(SearchTest):
    def test_deephyper_reads_the_results(self):
        name = self.space("read", "loss", "trials = 6\n", RANKS.replace("[1, 2]", "[1]") + RATES + """
[parameters.train.micro_batch]
type = "categorical"
values = [1, 2, 3]
""")
        self.expect(0, self.search(name))
        script = """
import sys, json
from deephyper.analysis.hpo import filter_failed_objectives, parameters_at_max, read_results_from_csv
table = read_results_from_csv(sys.argv[1])
done, failed = filter_failed_objectives(table)
values, best = parameters_at_max(done)
print(json.dumps({"rows": len(table), "failed": len(failed), "best": float(best), "values": {k: float(v) for k, v in values.items()}}))
"""
        path = self.folder / name / "results.csv"
        result = subprocess.run([PYTHON, "-W", "ignore", "-c", script, path], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        read = json.loads(result.stdout)
        rows = self.rows(name)
        self.assertEqual(read["rows"], 6)
        self.assertEqual(read["failed"], sum(row["objective"].startswith("F") for row in rows))
        best = max((row for row in rows if not row["objective"].startswith("F")), key=lambda row: float(row["objective"]))
        self.assertEqual(read["best"], float(best["objective"]))
        self.assertEqual(read["values"]["optimizer.learning_rate"], float(best["p:optimizer.learning_rate"]))


@unittest.skipIf(slurm.why_not(), slurm.why_not())
class UnderSlurm(SearchTest):
    def test_trials_share_one_job_as_steps(self):
        name = self.space("slurm", "step_seconds", 'method = "exhaustive"\nparallel = 2\n', RANKS + RATES.replace(
            'type = "real"', 'type = "ordered"').replace("range = [1e-5, 1e-1]\nlog = true", "values = [1e-3, 1e-2]"))
        script = self.folder / "job.sh"
        script.write_text(f"#!/bin/sh\nexec {TERRACE} search {name}.toml --output {name} > {name}.log 2>&1\n")
        with slurm.Slurm(cpus=4) as own:
            run = subprocess.run(["sbatch", "--wait", "--ntasks=4", "--output=job.out", script], cwd=self.folder,
                                 env=own.environment | ENVIRONMENT, capture_output=True, text=True, timeout=240)
            log = (self.folder / f"{name}.log").read_text()
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr + log)
        rows = self.rows(name)
        self.assertEqual([row["objective"] for row in rows if row["objective"].startswith("F")], [], rows)
        times = [(float(row["m:timestamp_submit"]), float(row["m:timestamp_gather"])) for row in rows]
        self.assertTrue(any(a[0] < b[1] and b[0] < a[1] for a in times for b in times if a is not b))
        two = next(row for row in rows if row["p:ranks"] == "2")
        self.assertIn("2 ranks", (self.folder / name / "trials" / two["job_id"] / "output.log").read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], exit=True)
