"""Tests predictions of structures by the built binary: columns that ASE reads, errors that terrace evaluate finds too, and
spreads judged as by uncertainty-toolbox."""
import csv
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import ase.io
import numpy as np
import scipy.stats
import uncertainty_toolbox
from ase import Atoms
from ase.calculators.lj import LennardJones
from ase.calculators.singlepoint import SinglePointCalculator
from ase.calculators.socketio import SocketIOCalculator
from ase.data import chemical_symbols

from commands_test import TERRACE, CommandTest, terrace
from potential import potential_config


def clusters(count):
    """Loose clusters of argon and neon with Lennard-Jones energies, some of them in a cell."""
    draw, made = np.random.default_rng(4), []
    for number in range(count):
        atoms = Atoms("Ar2Ne2" if number % 2 else "Ar2Ne", positions=draw.uniform(-0.2, 0.2, size=(4 if number % 2 else 3, 3)))
        atoms.positions += 1.3 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])[: len(atoms)]
        if number % 5 == 0:
            atoms.set_cell([6, 7, 8])
            atoms.pbc = True
        calculated = atoms.copy()
        calculated.calc = LennardJones(sigma=1.0, epsilon=0.3, rc=3.5, smooth=True)
        atoms.calc = SinglePointCalculator(atoms, energy=calculated.get_potential_energy(), forces=calculated.get_forces())
        made.append(atoms)
    return made


def ence(error, deviation):
    """The expected normalised calibration error over ten bins of ascending deviation (arXiv 1905.11659, equations 7 to 9)."""
    order = np.argsort(deviation)
    cuts = np.arange(11) * len(order) // 10
    bins = [order[begin:end] for begin, end in zip(cuts, cuts[1:])]
    deviations, errors = (np.array([np.sqrt(np.mean(values[one] ** 2)) for one in bins]) for values in (deviation, error))
    return np.mean(np.abs(deviations - errors) / deviations)


def setUpModule():
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    folder = PredictTest.folder = pathlib.Path(scratch.name)
    ase.io.write(folder / "clusters.xyz", clusters(160), format="extxyz")
    (folder / "run.toml").write_text(potential_config("clusters", "run", 60))
    for command in (["data", "prepare", "clusters.xyz", "--kind", "graphs", "--output", "clusters", "--split", "0.6,0.2,0.2"],
                    ["ensemble", "run.toml", "--seeds", 3, "--ranks", 1, "--output", "three"]):
        result = terrace(*command, folder=folder)
        assert result.returncode == 0, result.stderr


class PredictTest(CommandTest):
    def predict(self, *arguments):
        return terrace("predict", *arguments, folder=self.folder)

    def predicted(self, *arguments):
        return json.loads(self.expect(0, self.predict(*arguments, "--json")).stdout)

    def test_errors_are_those_of_evaluate(self):
        found = self.predicted("three/member_1", "--data", "clusters", "--split", "validation")["outputs"]
        evaluated = json.loads(self.expect(0, terrace("evaluate", "three/member_1", "--json", folder=self.folder)).stdout)
        for output in ("energy", "forces"):
            for error in ("mae", "rmse"):
                self.assertAlmostEqual(found[output][error] / evaluated[f"{error}_{output}"], 1, places=4)
        self.assertIsNone(found["energy"]["miscalibration_area"], "one model has no spread")

    def test_ase_reads_values_in_the_order_of_the_input_with_labels_members_and_spread(self):
        self.predicted("three", "--data", "clusters.xyz", "--output", "all.xyz", "--csv", "all.csv")
        given, read = ase.io.read(self.folder / "clusters.xyz", ":"), ase.io.read(self.folder / "all.xyz", ":")
        self.assertEqual(len(read), len(given))
        members = []
        for member in (1, 2, 3):
            self.predicted(f"three/member_{member}", "--data", "clusters.xyz", "--output", f"{member}.xyz")
            members.append(ase.io.read(self.folder / f"{member}.xyz", ":"))
        for number, (before, after) in enumerate(zip(given, read)):
            np.testing.assert_array_equal(after.positions, before.positions)
            np.testing.assert_array_equal(after.numbers, before.numbers)
            np.testing.assert_array_equal(after.cell, before.cell)
            np.testing.assert_array_equal(after.pbc, before.pbc)
            self.assertEqual(after.info["energy_label"], before.get_potential_energy())
            np.testing.assert_array_equal(after.arrays["forces_label"], before.get_forces())
            energies = [member[number].get_potential_energy() for member in members]
            self.assertEqual(energies, [after.info[f"energy_{i}"] for i in (1, 2, 3)])
            self.assertAlmostEqual(after.get_potential_energy(), np.mean(energies), places=10)
            self.assertAlmostEqual(after.info["energy_std"], np.std(energies, ddof=1) * np.sqrt(4 / 3), places=10)
            np.testing.assert_allclose(after.get_forces().sum(0), 0, atol=1e-4)
        with open(self.folder / "all.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([float(row["energy"]) for row in rows], [atoms.get_potential_energy() for atoms in read])

    def test_the_spread_is_judged_as_by_uncertainty_toolbox_scipy_and_numpy(self):
        found = self.predicted("three", "--data", "clusters", "--output", "test.xyz")["outputs"]
        read = ase.io.read(self.folder / "test.xyz", ":")
        of_atoms = [1 / len(atoms) for atoms in read]
        values = {
            "energy": [np.array([atoms.get_potential_energy() for atoms in read]) * of_atoms,
                       np.array([atoms.info["energy_std"] for atoms in read]) * of_atoms,
                       np.array([atoms.info["energy_label"] for atoms in read]) * of_atoms],
            "forces": [np.concatenate([part(atoms).ravel() for atoms in read]) for part in
                       (lambda a: a.get_forces(), lambda a: a.arrays["forces_std"], lambda a: a.arrays["forces_label"])],
        }  # fmt: skip
        for output, (mean, deviation, label) in values.items():
            for own, scale in ((found[output], 1), (found[output]["scaled"], found[output]["scale"])):
                theirs = {
                    "mae": np.abs(mean - label).mean(),
                    "rmse": np.sqrt(np.square(mean - label).mean()),
                    "miscalibration_area": uncertainty_toolbox.miscalibration_area(mean, scale * deviation, label),
                    "sharpness": uncertainty_toolbox.sharpness(scale * deviation),
                    "nll": uncertainty_toolbox.nll_gaussian(mean, scale * deviation, label),
                    "ence": ence(mean - label, scale * deviation),
                    "spearman": scipy.stats.spearmanr(np.abs(mean - label), deviation).statistic,
                }
                for name, value in theirs.items():
                    self.assertAlmostEqual(own[name] / value, 1, delta=1e-6, msg=f"{output} {name}")
            self.assertLess(found[output]["scaled"]["miscalibration_area"], found[output]["miscalibration_area"] + 1e-9)

    def test_an_element_that_was_never_seen_is_said(self):
        ase.io.write(self.folder / "gold.xyz", Atoms("AuNe", positions=[[0, 0, 0], [1.2, 0, 0]]), format="extxyz")
        result = self.expect(0, self.predict("three", "--data", "gold.xyz", "--json"), "no training structure had Au")
        self.assertEqual(json.loads(result.stdout)["unknown_elements"], ["Au"])

    def test_elements_that_were_never_seen_have_a_larger_spread(self):
        # Each in the place of the first argon of 32 clusters; so the geometries are those of the training.
        elements = ["Ar"] + [symbol for symbol in chemical_symbols[1:119] if symbol not in ("Ar", "Ne")]
        clusters = ase.io.read(self.folder / "clusters.xyz", ":32")
        made = [Atoms([symbol, *atoms.get_chemical_symbols()[1:]], atoms.positions, cell=atoms.cell, pbc=atoms.pbc)
                for symbol in elements for atoms in clusters]
        ase.io.write(self.folder / "elements.xyz", made, format="extxyz")
        self.predicted("three", "--data", "elements.xyz", "--output", "elements_out.xyz")
        read = ase.io.read(self.folder / "elements_out.xyz", ":")
        known, *unseen = np.array([atoms.info["energy_std"] for atoms in read]).reshape(len(elements), -1)
        # The members' rows of an element are drawn by chance and may be alike, so that their disagreement alone would not say it.
        disagreement = np.array([np.std([atoms.info[f"energy_{member}"] for member in (1, 2, 3)], ddof=1) for atoms in read])
        self.assertLess(disagreement.reshape(len(elements), -1)[1:].min(), disagreement[:len(clusters)].max())
        self.assertGreater(np.array(unseen).min(), known.max())
        self.assertGreater(np.median([spread.mean() / known.mean() for spread in unseen]), 3)

    def test_ase_moves_atoms_by_the_forces_that_it_is_served(self):
        given = ase.io.read(self.folder / "clusters.xyz", ":")
        for number in (0, 1):  # one in a cell, and one without
            atoms = given[number].copy()
            ase.io.write(self.folder / "moved.xyz", atoms, format="extxyz")
            self.predicted("three", "--data", "moved.xyz", "--output", "moved_out.xyz", "--overwrite")
            expected = ase.io.read(self.folder / "moved_out.xyz")
            socket = f"terrace_{os.getpid()}_{number}"
            with SocketIOCalculator(unixsocket=socket, timeout=60) as calculator:
                child = subprocess.Popen([TERRACE, "predict", "three", "--data", "moved.xyz", "--serve", socket],
                                         cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.addCleanup(child.kill)
                atoms.calc = calculator
                self.assertAlmostEqual(atoms.get_potential_energy() / expected.get_potential_energy(), 1, places=6)
                np.testing.assert_allclose(atoms.get_forces(), expected.get_forces(), rtol=1e-5, atol=1e-7)
                before = atoms.get_potential_energy()
                atoms.positions[0, 0] += 0.05
                self.assertNotEqual(atoms.get_potential_energy(), before)
            said, errors = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 0, errors)
            self.assertIn("answered 2 times", said)

    def test_a_program_that_is_not_there_or_has_other_atoms_is_said(self):
        ase.io.write(self.folder / "two.xyz", Atoms("ArNe", positions=[[0, 0, 0], [1.2, 0, 0]]), format="extxyz")
        socket = f"terrace_{os.getpid()}_other"
        with SocketIOCalculator(unixsocket=socket, timeout=60) as calculator:
            child = subprocess.Popen([TERRACE, "predict", "three", "--data", "two.xyz", "--serve", socket],
                                     cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(child.kill)
            atoms = Atoms("Ar3", positions=[[0, 0, 0], [1.2, 0, 0], [0, 1.2, 0]], calculator=calculator)
            with self.assertRaises(Exception):
                atoms.get_potential_energy()
            _, errors = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 2)
        self.assertIn("has 3 atoms, and the structure of --data 2", errors)

    def test_mistakes_are_refused_with_the_way_out(self):
        self.expect(2, self.predict("three", "--data", "nothing"), "nothing", "terrace data prepare --kind graphs")
        self.expect(2, self.predict("three", "--data", "clusters.xyz", "--output", "missing/out.xyz"), "missing does not exist")
        self.expect(2, self.predict("three", "--data", "clusters.xyz", "--output", "clusters.xyz"), "--overwrite")
        self.expect(2, self.predict("three", "--data", "clusters.xyz", "--page", "missing/page.html"), "missing does not exist")
        (self.folder / "page.html").write_text("kept")
        self.expect(2, self.predict("three", "--data", "clusters.xyz", "--page", "page.html"), "--overwrite")
        self.assertEqual((self.folder / "page.html").read_text(), "kept")
        for option in (("--lead", "6h"), ("--rollout", "6h"), ("--ranks", 2), ("--device", "cuda")):
            self.expect(2, self.predict("three", "--data", "clusters.xyz", *option), option[0], "predicts properties of structures")
        for other in ("--output", "--csv", "--page"):
            self.expect(2, self.predict("three", "--data", "clusters.xyz", "--serve", "x", other, "served.out"), "--serve", other)
        (self.folder / "broken.xyz").write_text("2\nProperties=species:S:1:pos:R:3\nAr 0 0 0\n")
        self.expect(2, self.predict("three", "--data", "broken.xyz", "--output", "broken_out.xyz"), "broken.xyz")
        self.assertEqual(list(self.folder.glob("*broken_out*")) + list(self.folder.glob(".*.partial")), [])


if __name__ == "__main__":
    unittest.main()
