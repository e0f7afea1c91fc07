"""Tests searches that are several processes in one folder: they share the trials, and finish what one of them leaves undone."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from commands_test import SOURCE, SYSTEM_FAULTS, TERRACE, terrace  # noqa: E402
from search_test import SearchTest  # noqa: E402


class Workers(SearchTest):
    """Each trial leaves the process of its search in `who`. All but the first wait for the file `go`, and those of a search that has STUCK
    in its environment never end."""
    SPACE = """[search]
evaluator = "command"
objective = "score"
command = '''echo $PPID > {folder}/who; [ -z "$STUCK" ] || sleep 1000
while [ {trial} -gt 0 ] && [ ! -e {folder}/../../go ]; do sleep 0.05; done
sleep 0.3; echo '{"score": '{x}'}' > {result}'''
trials = 10
"""
    PARAMETERS = """[parameters.x]
type = "integer"
range = [0, 99]
"""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)

    def space_of_commands(self, name, more=""):
        (self.folder / f"{name}.toml").write_text(self.SPACE + more + self.PARAMETERS)
        return name

    def start(self, name, *more, inside=(), **environment):
        command = [*inside, TERRACE, "search", f"{name}.toml", "--output", name, "--json", *more]
        child = subprocess.Popen(command, cwd=self.folder, env=os.environ | environment, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.__exit__, None, None, None)
        self.addCleanup(child.kill)
        return child

    def start_two(self, name, *more, inside=(), **environment):
        """Two searches that have begun a trial each; the first, which alone is `inside` something, has also finished one."""
        first = self.start(name, inside=inside)
        self.wait_for(lambda: self.done(name))
        second = self.start(name, "--join", *more, **environment)
        self.wait_for(lambda: str(second.pid) in self.makers(name))
        return first, second

    def go(self, name):
        (self.folder / name / "go").touch()

    def wait_for(self, what):
        for _ in range(300):
            if found := what():
                return found
            time.sleep(0.1)
        self.fail("waited for 30 s")

    def ends(self, child, code=0):
        printed, said = child.communicate(timeout=120)
        self.assertEqual(child.returncode, code, said)
        return json.loads(printed), said

    def done(self, name):
        return len(self.rows(name)) if (self.folder / name / "results.csv").exists() else 0

    def makers(self, name):
        """The trials that each process has begun."""
        makers = {}
        for path in (self.folder / name / "trials").glob("*/who"):
            makers.setdefault(path.read_text().strip(), []).append(path.parent.name)
        return makers

    def expect_each_trial_once(self, name, count=10):
        rows = self.rows(name)
        self.assertEqual(len(rows), count, rows)
        for column in ("p:x", "job_id"):
            self.assertEqual(len({row[column] for row in rows}), count, rows)
        self.assertEqual([row["objective"] for row in rows], [row["p:x"] for row in rows])
        return rows

    def test_two_share_the_trials_and_a_third_is_refused(self):
        for method in ("bayesian", "random"):
            name = self.space_of_commands(f"shared_{method}", f'method = "{method}"\n')
            first, second = self.start_two(name)
            refused = terrace("search", f"{name}.toml", "--output", name, folder=self.folder)
            self.expect(2, refused, f"another search works in {name} (process ", "use another --output", "work on it together with --join")
            refused = terrace("search", f"{name}.toml", "--output", name, "--join", "--method", "exhaustive", folder=self.folder)
            self.expect(2, refused, f"'method = {method}' where this one has 'method = exhaustive'")
            self.go(name)
            results = [self.ends(child)[0] for child in (first, second)]
            self.expect_each_trial_once(name)
            self.assertEqual(self.makers(name).keys(), {str(first.pid), str(second.pid)})
            for result in results:
                self.assertEqual(result["trials"], 10)
                self.assertGreater(result["by_others"], 0)
            self.assertEqual(results[0]["best"], results[1]["best"])
            self.assertFalse((self.folder / name / "claims.jsonl").exists())
            again = terrace("search", f"{name}.toml", "--output", name, "--json", folder=self.folder)
            self.assertEqual(json.loads(self.expect(0, again).stdout)["resumed"], 10)

    def test_many_that_start_at_once_share_the_trials(self):
        name = self.space_of_commands("at_once", 'method = "random"\nparallel = 2\n')
        children = [self.start(name, "--join", "--trials", "16") for _ in range(4)]
        self.wait_for(lambda: len(self.makers(name)) == 4)
        self.go(name)
        for child in children:
            self.assertEqual(self.ends(child)[0]["trials"], 16)
        self.expect_each_trial_once(name, 16)

    def test_what_a_killed_worker_had_begun_is_done_by_another(self):
        name = self.space_of_commands("killed_worker")
        first, stuck = self.start_two(name, STUCK="1")
        [begun] = self.makers(name)[str(stuck.pid)]
        self.go(name)
        self.wait_for(lambda: self.done(name) == 9)
        time.sleep(2)
        self.assertIsNone(first.poll(), "it waits, since the last trial is not done yet")
        stuck.send_signal(signal.SIGKILL)
        self.assertEqual(self.ends(first)[0]["trials"], 10)
        rows = self.expect_each_trial_once(name)
        self.assertNotIn(begun, {row["job_id"] for row in rows}, "the trial has a new number")
        self.assertEqual(subprocess.run(["pgrep", "-f", f"{name}/trials/"], capture_output=True, text=True).stdout, "")

    def test_ctrl_c_leaves_the_others(self):
        name = self.space_of_commands("interrupted")
        first, second = self.start_two(name)
        first.send_signal(signal.SIGINT)
        result, said = self.ends(first, 4)
        self.assertEqual(result["trials"], 1)
        self.assertIn("the same command with --join continues the search", said)
        self.go(name)
        self.assertEqual(self.ends(second)[0]["trials"], 10)
        self.expect_each_trial_once(name)

    def test_the_time_of_one_is_not_that_of_the_others(self):
        name = self.space_of_commands("timed")
        first, second = self.start_two(name, "--time", "1s")
        time.sleep(1)
        self.go(name)
        self.assertEqual(len(self.makers(name)[str(second.pid)]), 1)
        self.assertLess(self.ends(second)[0]["trials"], 10)
        self.assertEqual(self.ends(first)[0]["trials"], 10)
        self.assertEqual(len(self.makers(name)[str(second.pid)]), 1)
        self.expect_each_trial_once(name)

    def test_predictions_are_shared_too(self):
        text = (SOURCE / "configs/search/175b_frontier.toml").read_text()
        (self.folder / "simulated.toml").write_text(text.replace("configs/", f"{SOURCE}/configs/"))
        more = ("--method", "exhaustive", "--trials", "3264")
        first = self.start("simulated", *more)
        self.wait_for(lambda: self.done("simulated") > 50)
        second = self.start("simulated", *more, "--join")
        results = [self.ends(child)[0] for child in (first, second)]
        rows = self.rows("simulated")
        self.assertEqual(len(rows), 3264)
        self.assertEqual(len({tuple(row[key] for key in row if key.startswith("p:")) for row in rows}), 3264)
        self.assertEqual([one["figures"] for one in results[0]["best"]], [one["figures"] for one in results[1]["best"]])

    # Neither sees the processes of the other.
    @unittest.skipIf(subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "--uts", "true"], capture_output=True).returncode != 0,
                     "namespaces are not allowed here")
    def test_hosts_that_share_the_folder(self):
        inside = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "sh", "-c", 'hostname far; "$@"', "sh")
        name = self.space_of_commands("hosts")
        first, second = self.start_two(name, inside=inside)
        refused = terrace("search", f"{name}.toml", "--output", name, folder=self.folder)
        self.expect(2, refused, " on far); wait for its end")
        self.go(name)
        for child in (first, second):
            self.assertGreater(self.ends(child)[0]["by_others"], 0)
        self.expect_each_trial_once(name)

    def test_a_file_system_without_locks(self):
        name = self.space_of_commands("lockless", "parallel = 2\n")
        children = [self.start(name, "--join", **SYSTEM_FAULTS, TERRACE_TEST_NO_FLOCK="1") for _ in range(3)]
        self.wait_for(lambda: len(self.makers(name)) == 3)
        self.go(name)
        for child in children:
            result, said = self.ends(child)
            self.assertEqual(result["trials"], 10)
            self.assertEqual(said.count("has no locks"), 1, said)
        self.expect_each_trial_once(name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], exit=True)
