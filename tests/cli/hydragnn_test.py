"""Trains reading = "hydragnn" on the synthetic graphs of HydraGNN's own tests, at their sizes and for as many steps, and holds
the errors against their thresholds, at five seeds. usage: hydragnn_test.py BUILD [all]; without `all` a part that takes
half a minute."""
import json
import pathlib
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np

EVERYTHING = sys.argv[-1] == "all"
if EVERYTHING:
    sys.argv.pop()

from commands_test import CommandTest, terrace

SEEDS = range(1, 6)
CONVS = ("schnet", "painn", "egnn", "pna", "gin", "gatv2", "cgcnn")
# HydraGNN has batch norm behind these.
NORMED = ("pna", "gin", "gatv2", "cgcnn")
HEAD = """[model]
family = "gnn"
reading = "hydragnn"
layers = 2
radius = 2.0
atom_features = {f = 1}
pooling = "mean"
"""
TAIL = """
[data]
train = ["graphs"]
held_out_split = "test"

[train]
threads = 1
evaluate_every = 100000

[optimizer]
weight_decay = 0.01
clip = 0.0
"""
OUTPUT = '\n[[model.outputs]]\nname = "{}"\nlevel = "{}"\nlabel = "{}"\nlayers = 2\nwidth = {}\nweight = {}\n'
NODES = "".join(OUTPUT.format(f"node_{name}", "node", name, 10, 1.0) for name in ("x", "x2", "x3"))
# The cases of HydraGNN's ci.json, ci_multihead.json and ci_conv_head.json: sizes, batch, learning rate, and the steps
# of 100 epochs of 350 graphs.
CASES = {"single": (HEAD + "width = 8\nshared_layers = 2\nshared_width = 4\n" + OUTPUT.format("total", "graph", "total", 10, 1.0), 32, 0.02, 1100),
         "multi": (HEAD + "width = 8\nshared_layers = 2\nshared_width = 10\n" + OUTPUT.format("total", "graph", "total", 10, 20.0) + NODES, 16, 0.01, 2200),
         "conv": (HEAD.replace('pooling = "mean"\n', "") + "width = 20\n"
                  + OUTPUT.format("node_x", "node", "x", 20, 1.0).replace("width = 20\n", "") + 'head = "conv"\n', 32, 0.02, 1100)}
# Mean squared and mean absolute error of each output.
THRESHOLDS = {"schnet": (0.20, 0.20), "egnn": (0.20, 0.20), "painn": (0.60, 0.60), "gin": (0.25, 0.20), "gatv2": (0.60, 0.70),
              "pna": (0.20, 0.20), "cgcnn": (0.50, 0.40)}
CONV_THRESHOLDS = THRESHOLDS | {"schnet": (0.30, 0.30), "egnn": (0.24, 0.24), "gin": (0.26, 0.51)}
# The errors with lengths of edges as inputs, which pna and cgcnn have here always.
LENGTHS_THRESHOLDS = THRESHOLDS | {"pna": (0.10, 0.10), "cgcnn": (0.175, 0.175)}
CASE_THRESHOLDS = {"single": LENGTHS_THRESHOLDS, "multi": THRESHOLDS, "conv": CONV_THRESHOLDS}

# Root mean square errors of the mean label of 20,000 graphs' atoms that have the same type, and the same types at the same lengths
# around them: no function of these is better. Of several nearest atoms the label takes one, which they do not tell.
BEST = {"x": 0.0, "x2": 0.077, "x3": 0.121, "total": 0.0}
# The errors without the lengths, which gin does not read.
BEST_OF_TYPES = BEST | {"x2": 0.121, "x3": 0.191}


def unit_cells(draw, count):
    """Body-centred cubic pieces whose atoms have one of three types; labels are of the mean type of an atom and its nearest one."""
    made = []
    for _ in range(count):
        corners = np.array([(x, y, 0.0) for x in range(draw.integers(1, 3)) for y in range(draw.integers(1, 3))])
        places = np.concatenate([corners, corners + 0.5]).reshape(2, -1, 3).transpose(1, 0, 2).reshape(-1, 3)
        types = draw.integers(0, 3, len(places)).astype(float)
        nearest = np.argsort(np.linalg.norm(places[:, None] - places[None], axis=2), axis=1, kind="stable")[:, :2]
        mean = types[nearest].mean(1)
        made.append({"positions": places, "f": types, "x": types, "x2": mean**2 + types, "x3": mean**3,
                     "total": np.array([(mean + mean**2 + types + mean**3).sum()])})
    return made


def write_graphs(path):
    """With labels and types from 0 to 1, as HydraGNN's reader scales them."""
    draw = np.random.default_rng(97)
    made = unit_cells(draw, 500)
    for name in ("f", "x", "x2", "x3", "total"):
        values = np.concatenate([one[name] for one in made])
        for one in made:
            one[name] = (one[name] - values.min()) / (values.max() - values.min())
    joined = {name: np.concatenate([one[name] for one in made]) for name in made[0]}
    # Equal graphs are not to stay in one part.
    joined["positions"] = joined["positions"] + 1e-6 * draw.normal(size=joined["positions"].shape)
    np.savez(path, positions=joined["positions"], first_node=np.cumsum([0] + [len(one["f"]) for one in made]),
             **{f"node/{name}": joined[name] for name in ("f", "x", "x2", "x3")}, **{"graph/total": joined["total"]})
    return {name: joined[name].std() for name in ("x", "x2", "x3", "total")}


def setUpModule():
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    folder = HydraGnn.folder = pathlib.Path(scratch.name)
    HydraGnn.deviations = write_graphs(folder / "graphs.npz")
    result = terrace("data", "prepare", "graphs.npz", "--kind", "graphs", "--output", "graphs", "--split", "0.7,0.15,0.15", folder=folder)
    assert result.returncode == 0, result.stderr
    for name, (model, batch, rate, _) in CASES.items():
        tail = TAIL.replace("[train]\n", f"[train]\nglobal_batch = {batch}\nmicro_batch = {batch}\n") + f"learning_rate = {rate}\n"
        (folder / f"{name}.toml").write_text(model + tail + '\n[checkpoint]\nfolder = "run"\n')


class HydraGnn(CommandTest):
    def trained(self, case, conv, seed, steps):
        options = [f"model.conv={conv}", f"train.seed={seed}", f"train.steps={steps}", f"checkpoint.folder={case}_{conv}_{seed}"]
        if conv == "schnet":
            options += ["model.filters=126"]
        if conv == "painn":
            options += ["model.radial=6"]
        if conv == "gatv2":
            # HydraGNN has 6 heads beside each other, each as wide as the states of other layers.
            options += ["model.heads=6", f"model.width={6 * (20 if case == 'conv' else 8)}"]
        if conv in NORMED:
            options += ["model.norm=batch"]
        result = self.expect(0, terrace("train", f"{case}.toml", "--json", "--no-doctor", *(word for one in options for word in ("--set", one)),
                                        folder=self.folder))
        return json.loads(result.stdout)

    def expect_learnt(self, case, convs, steps=None):
        steps = steps or CASES[case][-1]
        runs = [(conv, seed) for conv in convs for seed in SEEDS]
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda run: self.trained(case, *run, steps), runs))
        for (conv, seed), found in zip(runs, results):
            squared, absolute = CASE_THRESHOLDS[case][conv]
            for output in [name.removeprefix("validation_mae_") for name in found if name.startswith("validation_mae_")]:
                with self.subTest(f"{case} {conv} seed {seed}: {output}"):
                    self.assertLess(found[f"validation_rmse_{output}"] ** 2, squared)
                    self.assertLess(found[f"validation_mae_{output}"], absolute)
                    # Most of these thresholds are reached by a constant, whose error is the labels' deviation. So a run
                    # is also to come half of the way from there to the best. For gatv2, 2 of 5 runs with several heads
                    # and 1 of 5 with a conv head do not.
                    if conv == "gatv2":
                        continue
                    label = output.removeprefix("node_")
                    best = (BEST_OF_TYPES if conv == "gin" else BEST)[label]
                    self.assertLess(found[f"validation_rmse_{output}"], (best + self.deviations[label]) / 2)
            with self.subTest(f"{case} {conv} seed {seed}"):
                self.assertNotIn("dead_outputs", found)

    def test_graphs_are_learnt_at_every_seed(self):
        if EVERYTHING:
            self.expect_learnt("single", CONVS)
        else:
            self.expect_learnt("single", ("schnet", "egnn"), 200)

    def test_nodes_of_conv_heads_are_learnt_at_every_seed(self):
        if EVERYTHING:
            # HydraGNN has none of cgcnn.
            self.expect_learnt("conv", CONVS[:-1])
        else:
            self.expect_learnt("conv", ("painn",), 200)
            self.expect_learnt("conv", ("schnet",), 500)

    @unittest.skipUnless(EVERYTHING, "takes minutes")
    def test_graphs_and_nodes_together_are_learnt_at_every_seed(self):
        self.expect_learnt("multi", CONVS)

    def test_a_dead_network_says_so(self):
        # At such a rate the first steps push all units of the heads to one side.
        found, said = None, ""
        for seed in SEEDS:
            result = terrace("train", "single.toml", "--json", "--no-doctor", "--set", "model.conv=egnn", "--set", f"train.seed={seed}",
                             "--set", "train.steps=60", "--set", "optimizer.learning_rate=1.0", "--set", f"checkpoint.folder=dead_{seed}",
                             folder=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            found, said = json.loads(result.stdout), result.stderr
            if "dead_outputs" in found:
                break
        self.assertEqual(found.get("dead_outputs"), ["total"])
        self.assertIn("the output total has the same value for all inputs although its labels differ", said)
        report = self.expect(0, terrace("report", f"dead_{seed}", "--text", folder=self.folder)).stdout
        self.assertIn("the network is dead", report)
        self.expect(0, terrace("report", f"dead_{seed}", "--output", "dead.html", folder=self.folder))
        self.assertIn("the network is dead", (self.folder / "dead.html").read_text())


if __name__ == "__main__":
    unittest.main()
