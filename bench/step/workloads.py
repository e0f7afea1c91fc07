"""The workloads of bench/step/compare.py and bench/layouts/compare.py, and what all that take part have in common."""
import dataclasses
import json

import numpy as np

LEARNING_RATE, WEIGHT_DECAY, CLIP = 3e-4, 0.1, 1.0
MICRO_BATCHES = 8  # of pipelines


@dataclasses.dataclass(frozen=True)
class Workload:
    layers: int
    width: int
    heads: int
    sequence: int
    batch: int
    vocabulary: int = 8192
    micro_batch: int = 0  # sequences; 0: all of the batch
    ffn_width: int = 0  # 0: four times the width
    activation: str = "gelu"  # or "swiglu", whose first layer has twice as many outputs

    @classmethod
    def of(cls, text):
        """The workload of that name, or of a text as spec() makes it."""
        return WORKLOADS[text] if text in WORKLOADS else cls(**json.loads(text))

    def spec(self):
        return json.dumps(dataclasses.asdict(self))

    @property
    def inner(self):
        return self.ffn_width or 4 * self.width

    @property
    def tokens(self):
        return self.batch * self.sequence

    @property
    def flops(self):
        """Of a step: 6 a weight of the products and token, and the half of the square that causal attention needs."""
        feed_forward = (3 if self.activation == "swiglu" else 2) * self.inner
        weights = self.layers * self.width * (4 * self.width + feed_forward) + self.vocabulary * self.width
        return (6 * weights + 6 * self.layers * self.sequence * self.width) * self.tokens

    @property
    def first_stage_layers(self):
        """For a pipeline of two stages that cost as nearly the same as possible: the head costs as much as a few layers."""
        head = self.vocabulary / (12 * self.width)
        return min(range(self.layers + 1), key=lambda first: max(first, self.layers - first + head))

    def config(self, corpus, precision, folder):
        """The same as a configuration of terrace."""
        return f"""
[model]
family = "gpt"
layers = {self.layers}
width = {self.width}
heads = {self.heads}
ffn_width = {self.inner}
activation = "{self.activation}"
sequence = {self.sequence}
vocabulary = {self.vocabulary}
positions = "learned"

[data]
train = ["{corpus}"]
validation_share = 0.0

[train]
global_batch = {self.batch}
micro_batch = {self.micro_batch}
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


def token_type(vocabulary):
    """The type of a corpus's tokens: the smallest that Megatron's format has."""
    return np.uint16 if vocabulary <= 2**16 else np.int32


WORKLOADS = {
    "A": Workload(layers=4, width=768, heads=12, sequence=256, batch=8),
    "B": Workload(layers=12, width=256, heads=8, sequence=256, batch=16),
    "C": Workload(layers=4, width=768, heads=12, sequence=2048, batch=1),
}
