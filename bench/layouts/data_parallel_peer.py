"""Data parallel by PyTorch's DDP or FSDP2. bf16 is autocast with DDP, a MixedPrecisionPolicy with FSDP2."""
import contextlib

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from peer import Gpt, adamw, autocast, batches
from workloads import CLIP


def parallel(model, how, precision):
    if how == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    options = {"mesh": init_device_mesh("cpu", (dist.get_world_size(),))}
    if precision == "bf16":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def prepare(shape, precision, how, corpus):
    model = parallel(Gpt(shape), how, precision)
    optimizer = adamw(model.parameters())
    data = batches(shape, corpus, dist.get_rank(), dist.get_world_size())
    mixed = (lambda: autocast(precision)) if how == "ddp" else contextlib.nullcontext

    def step():
        tokens, targets = next(data)
        optimizer.zero_grad(set_to_none=True)
        with mixed():
            loss = model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return loss.item()

    return step, float
