"""Tests stress, virials, units and labels that only some structures have: what is trained, predicted and served is that of
ASE's EMT potential for slabs, whose cells are periodic along two of three vectors."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import ase.io
import ase.units
import numpy as np
from ase import Atoms
from ase.build import fcc111
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.calculators.socketio import SocketIOCalculator

from commands_test import TERRACE, CommandTest, terrace
from potential import potential_config

STRESS = """
[[model.outputs]]
name = "stress"
label = "LABEL"
derivative_of = "energy"
derivative = "stress"
weight = 5.0
"""


def slabs(count):
    draw, made = np.random.default_rng(3), []
    while len(made) < count:
        atoms = fcc111("Cu", (2, 2, 3), a=draw.uniform(3.7, 4.0), vacuum=6.0)
        atoms.set_chemical_symbols(draw.choice(["Cu", "Ag", "Ni", "Al"], len(atoms)))
        atoms.pbc = [True, True, False]
        del atoms.arrays["tags"]
        atoms.info.clear()
        atoms.rattle(0.08, seed=len(made))
        calculated = atoms.copy()
        calculated.calc = EMT()
        atoms.calc = SinglePointCalculator(atoms, energy=calculated.get_potential_energy(), forces=calculated.get_forces(),
                                           stress=calculated.get_stress())
        made.append(atoms)
    return made


def bare(atoms, **info):
    """The atoms with results under other names or in other units, as keys and columns of the file."""
    copy = atoms.copy()
    copy.calc = None
    copy.info.update(info)
    return copy


def write(name, structures):
    ase.io.write(StressTest.folder / name, structures, format="extxyz")


def run(*command, code=0):
    result = terrace(*command, folder=StressTest.folder)
    assert result.returncode == code, (command, result.stdout, result.stderr)
    return result


def prepare(name, structures, *flags, code=0):
    write(name + ".xyz", structures)
    return run("data", "prepare", name + ".xyz", "--kind", "graphs", "--output", name, "--overwrite", *flags, code=code)


def train(data, folder, *flags, stress="stress", steps=120, code=0):
    text = potential_config(data, folder, steps, radius=4.5, batch=16)
    if stress:
        text += STRESS.replace("LABEL", stress)
    (StressTest.folder / (folder + ".toml")).write_text(text)
    return run("train", folder + ".toml", *flags, code=code)


def judged(folder, data="slabs"):
    return json.loads(run("predict", folder, "--data", data, "--split", "all", "--json").stdout)["outputs"]


def losses(folder):
    lines = (StressTest.folder / folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines if '"loss"' in line]


def setUpModule():
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    StressTest.folder = pathlib.Path(scratch.name)
    StressTest.slabs = slabs(60)
    prepare("slabs", StressTest.slabs)
    train("slabs", "with")


class StressTest(CommandTest):
    def predicted(self, name, structures, folder="with"):
        write(name, structures)
        run("predict", folder, "--data", name, "--output", "out_" + name, "--overwrite")
        return ase.io.read(self.folder / ("out_" + name), ":")

    def test_stress_of_a_slab_is_the_derivative_by_strain_over_the_volume_of_the_cell(self):
        atoms = self.slabs[0]
        stress = self.predicted("one.xyz", [bare(atoms)])[0].get_stress(voigt=False)
        step = 5e-3
        for a, b in ((0, 0), (1, 1), (0, 1)):
            strained = []
            for sign in (1, -1):
                strain = np.eye(3)
                strain[a, b] += sign * step / 2
                strain[b, a] += sign * step / 2
                moved = bare(atoms)
                moved.set_cell(moved.cell[:] @ strain, scale_atoms=True)
                strained.append(moved)
            high, low = (one.get_potential_energy() for one in self.predicted("strained.xyz", strained))
            difference = (high - low) / (2 * step) / atoms.get_volume()
            self.assertLess(abs(stress[a, b] - difference), 0.03 * np.abs(stress).max(), (a, b))

    def test_training_on_stress_of_slabs_learns_it_and_leaves_the_forces(self):
        train("slabs", "without", stress="")
        with_stress, without = judged("with"), judged("without")
        self.assertLess(with_stress["forces"]["rmse"], 1.5 * without["forces"]["rmse"])
        own = np.sqrt(np.mean([atoms.get_stress(voigt=False) ** 2 for atoms in self.slabs]))
        self.assertLess(with_stress["stress"]["rmse"], own)

    def test_a_structure_without_a_volume_has_no_stress(self):
        cluster = Atoms("Cu4", positions=np.array([[0, 0, 0], [2.5, 0, 0], [0, 2.5, 0], [0, 0, 2.5]]))
        boxed = cluster.copy()
        boxed.set_cell([12, 12, 12])
        none, some = self.predicted("clusters.xyz", [cluster, boxed])
        self.assertNotIn("stress", none.calc.results)
        self.assertAlmostEqual(none.get_potential_energy() / some.get_potential_energy(), 1, places=6)
        self.assertIn("stress", some.calc.results)  # of its cell, whatever is periodic, as in ASE
        cluster.info["REF_stress"] = np.ones(6)
        said = prepare("flat", [cluster, *self.slabs[:3]])
        self.assertIn("has a stress or virial and a cell without a volume", said.stderr)

    def test_a_run_that_an_older_version_began_is_not_gone_on_with(self):
        train("slabs", "older", steps=4)
        manifest = self.folder / "older/step_00000004/manifest.json"
        found = json.loads(manifest.read_text())
        self.assertEqual(found["trainer"]["data"].pop("stress"), 2)  # which older versions did not write
        manifest.write_text(json.dumps(found))
        said = train("slabs", "older", "--resume", "auto", steps=8, code=2).stderr
        found["checksum"] = re.search(r"its checksum is (\w+), and it states", said)[1]
        manifest.write_text(json.dumps(found))
        self.expect(2, train("slabs", "older", "--resume", "auto", steps=8, code=2), "label stress of 60 structures of slabs",
                    "slabs.xyz: structure 1", "Continue it with the terrace that wrote its checkpoints")
        # A model without stress goes on.
        train("slabs", "energies", stress="", steps=4)
        self.assertNotIn("stress", json.loads((self.folder / "energies/step_00000004/manifest.json").read_text())["trainer"]["data"])

    def test_virials_six_numbers_and_other_names_train_the_same(self):
        train("slabs", "few", steps=8)
        expected = losses("few")
        spelled = {"virial": [bare(a, energy=a.get_potential_energy(), virial=-a.get_volume() * a.get_stress(voigt=False))
                              for a in self.slabs],
                   "REF_stress": [bare(a, energy=a.get_potential_energy(), REF_stress=a.get_stress()) for a in self.slabs],
                   "stress": [bare(a, energy=a.get_potential_energy() / ase.units.Hartree, **{
                       "energy-unit": "hartree", "stress-unit": "GPa", "forces-unit": "eV/angstrom"}) for a in self.slabs]}
        for a, virial, reference, other in zip(self.slabs, *spelled.values()):
            for one in (virial, reference, other):
                one.arrays["forces"] = a.get_forces()
            other.info["stress"] = a.get_stress(voigt=False) / ase.units.GPa
        units = {"virial": "eV", "REF_stress": "eV/angstrom^3", "stress": "GPa"}
        for label, structures in spelled.items():
            said = prepare("spelled", structures, "--units", f"{label}={units[label]}")
            train("spelled", "spelled_run", stress=label, steps=8)
            np.testing.assert_allclose(losses("spelled_run"), expected, rtol=1e-4, err_msg=label)
            # The prediction is a stress, whatever the label is.
            run("predict", "spelled_run", "--data", "spelled", "--split", "all", "--page", "page.html", "--overwrite")
            self.assertRegex((self.folder / "page.html").read_text(), r'"units": ?"eV/angstrom\^3"')
            subprocess.run(["rm", "-rf", self.folder / "spelled_run"], check=True)
        self.assertIn("energy is converted from hartree to eV", said.stderr)
        self.assertIn("stress is converted from GPa to eV/angstrom^3", said.stderr)

    def test_units_are_converted_or_refused(self):
        atoms = [bare(a, energy=a.get_potential_energy() / ase.units.Hartree) for a in self.slabs[:6]]
        for a, one in zip(self.slabs, atoms):
            one.arrays["forces"] = a.get_forces() / ase.units.Hartree * ase.units.Bohr
        said = prepare("hartree", atoms, "--units", "energy=hartree,forces=hartree/bohr")
        self.assertIn("energy of structures, 1 column, eV", said.stdout)
        mean = float(re.search(r"energy of structures, 1 column, eV: mean (\S+),", said.stdout)[1])
        self.assertAlmostEqual(mean / np.mean([a.get_potential_energy() for a in self.slabs[:6]]), 1, places=3)
        self.expect(2, prepare("hartree", atoms, "--units", "energy=hartree", code=2), "energy is in hartree", "forces has no unit")
        self.expect(2, prepare("hartree", atoms, "--units", "energy=furlong", code=2), "energy is in \"furlong\"", "kcal/mol")
        wrong = [bare(a, **{"energy-unit": "eV/atom"}) for a in atoms]
        self.expect(2, prepare("hartree", wrong, code=2), "eV/atom")

    def test_a_model_of_data_in_another_unit_serves_electronvolts(self):
        # Older versions prepared data in this way: the units are noted and the numbers are not converted.
        prepare("noted", self.slabs, "--units", "energy=eV,forces=eV/angstrom,stress=eV/angstrom^3")
        description = json.loads((self.folder / "noted.json").read_text())
        for one in description["properties"]:
            one["units"] = one["units"].replace("eV", "rydberg")
        (self.folder / "noted.json").write_text(json.dumps(description))
        train("noted", "in_rydberg", steps=8)
        expected = self.predicted("one.xyz", [bare(self.slabs[0])], "in_rydberg")[0]
        atoms, socket = bare(self.slabs[0]), f"terrace_{os.getpid()}_stress"
        with SocketIOCalculator(unixsocket=socket, timeout=60) as calculator:
            child = subprocess.Popen([TERRACE, "predict", "in_rydberg", "--data", "one.xyz", "--serve", socket], cwd=self.folder,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(child.kill)
            atoms.calc = calculator
            unit = ase.units.Rydberg
            self.assertAlmostEqual(atoms.get_potential_energy() / unit / expected.get_potential_energy(), 1, places=5)
            np.testing.assert_allclose(atoms.get_forces() / unit, expected.get_forces(), rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(atoms.get_stress() / unit, expected.get_stress(), rtol=1e-4, atol=1e-9)
        _, errors = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0, errors)
        # An energy and forces that are not its derivatives.
        description["properties"][1]["units"] = "GPa"
        (self.folder / "noted.json").write_text(json.dumps(description))
        self.expect(2, train("noted", "refused", steps=1, code=2), "no energy and its derivative")

    def test_labels_are_trained_where_they_are(self):
        mixed = []
        for number, atoms in enumerate(self.slabs):
            one = bare(atoms)
            if number % 2 == 0:
                one.info["energy"] = atoms.get_potential_energy()
            if number % 3 == 0:
                one.info["stress"] = atoms.get_stress(voigt=False)
            one.arrays["forces"] = atoms.get_forces()
            if number == 7:
                one.arrays["forces"][2] = np.nan
            mixed.append(one)
        said = prepare("mixed", mixed)
        self.assertIn("energy of structures: 30 of 60 structures have it", said.stderr)
        self.assertIn("forces of atoms: 3 values are NaN and count for missing", said.stderr)
        found = run("data", "inspect", "mixed").stdout
        self.assertIn("30 structures without it", found)
        self.assertIn("40 structures without it", found)
        self.assertIn("3 values missing (NaN)", found)
        train("mixed", "mixed_run")
        self.assertTrue(np.isfinite(losses("mixed_run")).all())
        errors = judged("mixed_run", "mixed")
        self.assertEqual((errors["energy"]["count"], errors["stress"]["count"]), (30, 9 * 20))
        self.assertEqual(errors["forces"]["count"], 3 * sum(map(len, self.slabs)) - 3)
        self.assertLess(errors["forces"]["rmse"], 1.5 * judged("with")["forces"]["rmse"])

    def test_forces_without_energies_are_enough(self):
        structures = [bare(a) for a in self.slabs]
        for a, one in zip(self.slabs, structures):
            one.arrays["forces"] = a.get_forces()
        prepare("forces", structures)
        train("forces", "forces_run", stress="")
        own = np.sqrt(np.mean(np.concatenate([a.get_forces() for a in self.slabs]) ** 2))
        self.assertLess(judged("forces_run", "forces")["forces"]["rmse"], own)


if __name__ == "__main__":
    unittest.main()
