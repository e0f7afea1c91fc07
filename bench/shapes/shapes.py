"""Draws models as users have them, by a seed: widths from 256 to 4096, heads 32 to 160 wide, feed-forward layers 2 to 5.4
times as wide, GELU and SwiGLU, vocabularies from 5,000 to 128,000, sequences from 100 to 4096."""
import math
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "step"))
from workloads import Workload  # noqa: E402

# A step takes some seconds at most on two cores, and a model with its optimizer states some GB.
MOST_FLOPS, FEWEST_FLOPS, MOST_WEIGHTS = 7e11, 1e11, 4e8
MOST_LOGITS = 2.5e8  # of a step; PyTorch keeps them three times in fp32


def log_uniform(draw, low, high):
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def drawn_once(draw):
    head = draw.choice([32, 40, 48, 52, 64, 64, 72, 80, 96, 100, 112, 128, 128, 144, 160])
    heads = max(2, round(log_uniform(draw, 256, 4096) / head))
    width = heads * head
    multiple = draw.choice([1, 4, 64])
    return Workload(
        layers=draw.randint(1, 8), width=width, heads=heads, sequence=round(log_uniform(draw, 100, 4096)),
        batch=draw.choice([1, 2, 3, 4, 5, 6, 8, 11, 13, 16]), vocabulary=round(log_uniform(draw, 5000, 128000)),
        ffn_width=round(width * draw.uniform(2, 5.4) / multiple) * multiple, activation=draw.choice(["gelu", "swiglu"]),
    )  # fmt: skip


def fits(shape):
    weights = shape.flops / 6 / shape.tokens
    return (256 <= shape.width <= 4096 and FEWEST_FLOPS <= shape.flops <= MOST_FLOPS and weights <= MOST_WEIGHTS
            and shape.tokens * shape.vocabulary <= MOST_LOGITS)  # fmt: skip


def drawn(seed, count):
    """So many workloads; the first ones are the same for every count."""
    draw, shapes = random.Random(seed), []
    while len(shapes) < count:
        shape = drawn_once(draw)
        if fits(shape):
            shapes.append(shape)
    return shapes
