"""Tensor parallel by PyTorch's DTensor: attention by heads, feed-forward, embedding, head and loss are all cut."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module

from peer import Gpt, adamw, autocast, batches
from workloads import CLIP

BLOCK = {
    "joint": ColwiseParallel(), "output": RowwiseParallel(), "first": ColwiseParallel(), "second": RowwiseParallel()
}  # fmt: skip


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


class CutGpt(nn.Module):
    """The model of the others with its head as a layer of its own, so that it can be cut by columns."""

    def __init__(self, shape):
        super().__init__()
        self.whole = Gpt(shape)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        ranks = dist.get_world_size()
        mesh = init_device_mesh("cpu", (ranks,))
        for block in self.whole.blocks:
            # A rank's rows of the joint projection are queries, keys and values of its heads.
            with torch.no_grad():
                for parameter in block.joint.parameters():
                    by_rank = parameter.view(3, ranks, shape.width // ranks, -1).transpose(0, 1)
                    parameter.copy_(by_rank.reshape(parameter.shape).clone())
            parallelize_module(block, mesh, BLOCK)
        parallelize_module(self.whole, mesh, {"tokens": RowwiseParallel(input_layouts=Replicate())})
        parallelize_module(self, mesh, {"head": ColwiseParallel(use_local_output=False)})
        self.head.weight = self.whole.tokens.weight

    def forward(self, tokens):
        model = self.whole
        x = model.tokens(tokens) + model.positions.weight[: tokens.shape[1]]
        for block in model.blocks:
            x = block(x)
        return self.head(model.norm(x))


def clip(cut, whole):
    """By the norm of all gradients: those of cut parameters are added up over the ranks."""
    cut, whole = ([local(parameter.grad) for parameter in part] for part in (cut, whole))
    squares = torch.stack(torch._foreach_norm(cut)).square().sum()
    dist.all_reduce(squares)
    squares += torch.stack(torch._foreach_norm(whole)).square().sum()
    torch._foreach_mul_(cut + whole, torch.clamp(CLIP / (squares.sqrt() + 1e-6), max=1.0))


def prepare(shape, precision, _, corpus):
    model = CutGpt(shape)
    for block in model.whole.blocks:
        block.heads //= dist.get_world_size()
    # The bias of a layer that is cut by rows is a DTensor too, but every rank has all of it.
    cut = [p for p in model.parameters() if isinstance(p, DTensor) and p.placements[0].is_shard()]
    whole = [p for p in model.parameters() if not (isinstance(p, DTensor) and p.placements[0].is_shard())]
    # The fused optimizer takes tensors and DTensors in separate calls.
    optimizers = [
        adamw([p for p in model.parameters() if isinstance(p, DTensor) is is_dtensor]) for is_dtensor in (True, False)
    ]
    data = batches(shape, corpus)

    def step():
        tokens, targets = next(data)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        with loss_parallel():
            with autocast(precision):
                logits = model(tokens)
            loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
            loss.backward()
        clip(cut, whole)
        for optimizer in optimizers:
            optimizer.step()
        return (loss.full_tensor() if isinstance(loss, DTensor) else loss).item()

    return step, float
