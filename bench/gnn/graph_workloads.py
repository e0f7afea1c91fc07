"""Graph networks as bench/gnn/compare.py trains them: HydraGNN's and SchNetPack's usual sizes."""
import dataclasses
import json

LEARNING_RATE, WEIGHT_DECAY, CLIP, RADIUS = 5e-4, 1e-2, 10.0, 5.0
GRAPHS, BATCH = 256, 32  # of the data and of a step; an epoch has eight steps


@dataclasses.dataclass(frozen=True)
class Workload:
    conv: str
    width: int
    layers: int
    radial: int = 0
    forces: bool = False
    cap: int = 0  # on neighbours
    reading: str = "paper"

    @classmethod
    def of(cls, text):
        return cls(**json.loads(text))

    def spec(self):
        return json.dumps(dataclasses.asdict(self))

    def config(self, graphs, precision, folder):
        """The configuration of terrace."""
        forces = '\n[[model.outputs]]\nname = "forces"\nderivative_of = "energy"\nweight = 10.0\n' if self.forces else ""
        return f"""
[model]
family = "gnn"
conv = "{self.conv}"
reading = "{self.reading}"
layers = {self.layers}
width = {self.width}
radius = {RADIUS}
{f"radial = {self.radial}" if self.radial else ""}
{f"max_neighbours = {self.cap}" if self.cap else ""}
{"cap_with_forces = true" if self.cap and self.forces else ""}
{'cutoff = "none"' if self.forces and self.conv == "egnn" else ""}

[[model.outputs]]
name = "energy"
head = "atomwise"
per_atom = true
layers = 1
width = {max(1, self.width // 2)}
{forces}
[data]
train = ["{graphs}"]

[train]
global_batch = {BATCH}
steps = 100000
precision = "{precision}"
seed = 1

[optimizer]
learning_rate = {LEARNING_RATE}
schedule = "constant"
weight_decay = {WEIGHT_DECAY}
clip = {CLIP}

[checkpoint]
folder = "{folder}"
"""


NAMED = {
    "schnet": Workload("schnet", 128, 3, radial=50),
    "painn": Workload("painn", 128, 3, radial=20),
    "egnn": Workload("egnn", 866, 4, cap=20, reading="hydragnn"),
    "pna": Workload("pna", 50, 3, radial=20),
}
NAMED |= {f"{name}-forces": dataclasses.replace(NAMED[name], forces=True) for name in ("schnet", "painn", "egnn")}
