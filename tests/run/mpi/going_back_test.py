"""Tests that runs on processes go back to their newest checkpoint, in the same processes, where a bit flips or a loss jumps up, and
end with the bits of a run that was not disturbed."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

LAUNCHER, PROGRAM = sys.argv[1:3]


class GoingBack(unittest.TestCase):
    def trained(self, what):
        """The folder of both runs, and the log."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        run = subprocess.run([LAUNCHER, "-n", "2", PROGRAM, folder.name, what], capture_output=True, text=True, timeout=100)
        log = run.stdout + run.stderr
        self.assertEqual(run.returncode, 0, log)
        self.assertRegex(log, r"(?m)^undisturbed began 1 times$")
        self.assertRegex(log, r"(?m)^disturbed began 2 times$")
        self.assertEqual(log.count("The run begins again from its newest checkpoint"), 1, log)
        return pathlib.Path(folder.name), log

    def expect_same(self, folder, step):
        states = {}
        for run in ("undisturbed", "disturbed"):
            files = sorted((folder / run / f"step_{step:08}").glob("*.safetensors"))
            lines = map(json.loads, (folder / run / "metrics.jsonl").read_text().splitlines())
            states[run] = ({path.name: path.read_bytes() for path in files}, [(line["step"], line["loss"]) for line in lines if "loss" in line])
            self.assertEqual(len(files), 6)
        self.assertEqual(*states.values())

    def test_corruption_reloads_the_newest_checkpoint(self):
        folder, log = self.trained("reload")
        self.assertRegex(log, r"silent corruption in step 3: .*rank 1 \(host ")
        self.assertIn("step_00000002", log)
        self.expect_same(folder, 5)

    def test_corruption_reloads_the_newest_copy_in_memory(self):
        folder, log = self.trained("copies")
        self.assertRegex(log, r"silent corruption in step 3: .*rank 1 \(host ")
        self.assertRegex(log, "made .*disturbed/step_00000002 out of the copies in the memory of the nodes")
        self.assertEqual(list((folder / "memory").glob("*/*")), [])
        self.expect_same(folder, 5)

    def test_a_spike_goes_back_and_is_left_out(self):
        folder, log = self.trained("back")
        self.assertIn("the run goes back and leaves out the samples of this step", log)
        self.assertEqual(json.loads((folder / "disturbed/spikes/step_8.json").read_text())["on_spike"], "back")
        self.expect_same(folder, 12)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
