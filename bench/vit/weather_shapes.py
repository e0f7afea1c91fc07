"""Vision transformers for weather as bench/vit/compare.py trains them: two that it names, and those that a seed draws."""
import dataclasses
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shapes"))
from shapes import log_uniform  # noqa: E402

LEARNING_RATE, WEIGHT_DECAY, CLIP, LEAD_HOURS = 5e-4, 1e-5, 1.0, 6


@dataclasses.dataclass(frozen=True)
class Shape:
    variables: int  # given and predicted
    layers: int
    width: int
    heads: int
    batch: int
    latitudes: int = 32
    longitudes: int = 64
    patch: int = 2
    dropout: float = 0.1  # ClimaX's, as its stochastic depth

    @classmethod
    def of(cls, text):
        return cls(**json.loads(text))

    def spec(self):
        return json.dumps(dataclasses.asdict(self))

    def on_ranks(self, ranks):
        """The shape with a batch that so many ranks can divide."""
        return dataclasses.replace(self, batch=-(-self.batch // ranks) * ranks)

    @property
    def places(self):
        return self.latitudes * self.longitudes // self.patch**2

    @property
    def flops(self):
        """Of a step of one sample, as a program with a token for each variable computes it: forward and twice that backward."""
        products = 4 * self.variables + 24 * self.layers + 8 + 2 * self.variables * self.patch**2 / self.width
        return 3 * self.places * self.width * (self.width * products + 4 * self.layers * self.places)

    def names(self):
        return [f"v{number}" for number in range(self.variables)]

    def config(self, fields, precision, folder):
        """The configuration of terrace."""
        return f"""
[model]
family = "vit"
variables = {json.dumps(self.names())}
grid = [{self.latitudes}, {self.longitudes}]
patch = {self.patch}
layers = {self.layers}
width = {self.width}
heads = {self.heads}
dropout = {self.dropout}
drop_path = {self.dropout}

[data]
fields = "{fields}"
leads = ["{LEAD_HOURS}h"]

[train]
global_batch = {self.batch}
steps = 100000
precision = "{precision}"
seed = 1

[optimizer]
learning_rate = {LEARNING_RATE}
schedule = "constant"
beta1 = 0.9
beta2 = 0.95
weight_decay = {WEIGHT_DECAY}
clip = {CLIP}

[checkpoint]
folder = "{folder}"
"""


NAMED = {
    "48": Shape(variables=48, layers=6, width=384, heads=6, batch=2),
    "3": Shape(variables=3, layers=6, width=384, heads=6, batch=4),
    "small": Shape(variables=5, layers=2, width=64, heads=2, batch=2, latitudes=8, longitudes=16),  # for tests
}

# A step of PyTorch takes 0.2 to 3 seconds on two cores.
FEWEST_FLOPS, MOST_FLOPS = 3e10, 3e11


def drawn_once(draw):
    patch, head = draw.choice([2, 2, 4, 5]), draw.choice([32, 48, 64, 64, 80])
    heads = max(2, round(log_uniform(draw, 128, 768) / head))
    return Shape(
        variables=draw.choice([1, 3, 3, 5, 12, 27, 48, 69, 91]), layers=draw.randint(2, 10), width=heads * head, heads=heads,
        batch=draw.choice([1, 2, 3, 4, 6, 8, 12]), latitudes=patch * draw.randint(6, 24), longitudes=patch * draw.randint(12, 48),
        patch=patch,
    )  # fmt: skip


def drawn(seed, count):
    """So many shapes by name; the first ones are the same for every count."""
    draw, shapes = random.Random(seed), {}
    while len(shapes) < count:
        shape = drawn_once(draw)
        if shape.width % 4 == 0 and FEWEST_FLOPS <= shape.batch * shape.flops <= MOST_FLOPS:
            shapes[f"{seed}.{len(shapes) + 1}"] = shape
    return shapes
