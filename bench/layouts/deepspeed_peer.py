"""Data parallel by DeepSpeed's ZeRO-1 or ZeRO-3 on CPU over Gloo, with the optimizer of the others; bf16 is DeepSpeed's own.

DeepSpeed is no part of the set-up:

    .deps/python/bin/python -m pip install --no-deps --no-build-isolation --target .deps/deepspeed \
        -r bench/layouts/deepspeed_requirements.txt

It compiles a library the first time it runs, which takes half a minute.
"""
import os
import pathlib
import sys

import torch.distributed as dist

from peer import Gpt, adamw, batches
from workloads import CLIP

FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".deps/deepspeed"


def engine(model, stage, micro_batch, precision):
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ["PATH"] = f"{FOLDER / 'bin'}:{os.environ['PATH']}"  # for ninja
    sys.path.append(str(FOLDER))
    import deepspeed

    deepspeed.init_distributed("gloo", verbose=False)
    config = {
        "train_micro_batch_size_per_gpu": micro_batch,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": CLIP,
        "bf16": {"enabled": precision == "bf16"},
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
    }
    return deepspeed.initialize(model=model, optimizer=adamw(model.parameters()), config=config)[0]


def prepare(shape, precision, how, corpus):
    ranks = dist.get_world_size()
    trained = engine(Gpt(shape), int(how.removeprefix("zero")), shape.batch // ranks, precision)
    data = batches(shape, corpus, dist.get_rank(), ranks)

    def step():
        loss = trained(*next(data))
        trained.backward(loss)
        trained.step()
        return loss.item()

    return step, float
