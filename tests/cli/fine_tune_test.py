"""Tests runs of the built binary that begin with the weights of another one: what they keep of its statistics."""
import json
import pathlib
import tempfile
import unittest

import ase.io
import numpy as np
from ase import Atoms
from ase.calculators.lj import LennardJones
from ase.calculators.singlepoint import SinglePointCalculator

from commands_test import CommandTest, terrace
from potential import potential_config


def clusters(count, displacement, elements):
    """Clusters around the corners of a cube, the more similar the smaller the displacement is."""
    draw, made = np.random.default_rng(4), []
    for number in range(count):
        atoms = Atoms(elements[: 3 + number % 2], positions=1.2 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])[: 3 + number % 2])
        atoms.positions += draw.uniform(-displacement, displacement, size=(len(atoms), 3))
        calculated = atoms.copy()
        calculated.calc = LennardJones(sigma=1.0, epsilon=0.3, rc=3.5, smooth=True)
        atoms.calc = SinglePointCalculator(atoms, energy=calculated.get_potential_energy(), forces=calculated.get_forces())
        made.append(atoms)
    return made


def setUpModule():
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    folder = FineTune.folder = pathlib.Path(scratch.name)
    (folder / "run.toml").write_text(potential_config("wild", "before", 40))
    for name, made in (("wild", clusters(64, 0.2, ["Ar", "Ne", "Ar", "Ne"])), ("gentle", clusters(64, 0.02, ["Ar", "Ne", "Ar", "Ne"])),
                       ("new", clusters(64, 0.02, ["Ar", "Ne", "Ar", "Kr"]))):
        ase.io.write(folder / f"{name}.xyz", made, format="extxyz")
        result = terrace("data", "prepare", f"{name}.xyz", "--kind", "graphs", "--output", name, "--split", "0.5,0.25,0.25", folder=folder)
        assert result.returncode == 0, result.stderr
    result = terrace("train", "run.toml", folder=folder)
    assert result.returncode == 0, result.stderr


class FineTune(CommandTest):
    def tune(self, folder, data, *settings, code=0, steps=1):
        options = ["train.initial_weights=before", f"checkpoint.folder={folder}", f'data.train=["{data}"]', f"train.steps={steps}",
                   "optimizer.learning_rate=1e-12", *settings]
        return self.expect(code, terrace("train", "run.toml", *(word for one in options for word in ("--set", one)), folder=self.folder))

    def errors(self, run, data):
        found = json.loads(self.expect(0, terrace("predict", run, "--data", data, "--split", "test", "--json", folder=self.folder)).stdout)
        return {name: one["rmse"] for name, one in found["outputs"].items()}

    def statistics(self, run):
        return json.loads(sorted((self.folder / run).glob("step_*/statistics.json"))[-1].read_text())

    def test_a_force_field_is_the_same_after_a_step_that_moves_nothing(self):
        before = self.errors("before", "gentle")
        said = self.tune("kept", "gentle").stderr
        self.assertIn("offsets and scales of labels are those of before/step_00000040/statistics.json", said)
        after = self.errors("kept", "gentle")
        for output, error in before.items():
            self.assertAlmostEqual(after[output] / error, 1, places=3, msg=output)
        self.assertEqual(self.statistics("kept")["labels"], self.statistics("before")["labels"])

    def test_own_statistics_are_taken_where_they_are_asked_for(self):
        said = self.tune("own", "gentle", 'data.statistics="data"').stderr
        self.assertNotIn("offsets and scales", said)
        scale = {run: self.statistics(run)["labels"]["forces"]["scale"] for run in ("own", "before")}
        self.assertLess(scale["own"], 0.5 * scale["before"])
        self.assertGreater(abs(self.errors("own", "gentle")["forces"] / self.errors("before", "gentle")["forces"] - 1), 0.1)

    def test_a_run_that_continues_keeps_the_statistics_that_it_began_with(self):
        self.tune("stopped", "gentle", steps=2)
        kept = self.statistics("stopped")
        self.expect(0, terrace("train", "run.toml", "--resume", "auto", "--set", "train.initial_weights=before", "--set", "checkpoint.folder=stopped",
                               "--set", 'data.train=["gentle"]', "--set", "train.steps=3", "--set", "optimizer.learning_rate=1e-12",
                               folder=self.folder))
        self.assertEqual(self.statistics("stopped"), kept)

    def test_a_new_element_has_an_offset_of_its_own_beside_the_old_ones(self):
        self.tune("krypton", "new")
        before, after = (self.statistics(run)["labels"]["energy"]["offsets"][0]["elements"] for run in ("before", "krypton"))
        self.assertEqual({element: numbers for element, numbers in after.items() if element != "Kr"}, before)
        self.assertIn("Kr", after)
        self.assertIn("Kr", self.statistics("krypton")["elements"])


if __name__ == "__main__":
    unittest.main()
