"""Pipeline parallel by torch.distributed.pipelining: 1F1B with eight micro-batches; the tied matrix is on both stages."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from peer import Gpt, adamw, autocast, batches
from workloads import CLIP, MICRO_BATCHES


class Half(nn.Module):
    def __init__(self, shape, precision, rank):
        super().__init__()
        whole = Gpt(shape)
        boundary = shape.first_stage_layers
        self.precision, self.tokens = precision, whole.tokens
        self.blocks = whole.blocks[:boundary] if rank == 0 else whole.blocks[boundary:]
        self.positions = whole.positions if rank == 0 else None
        self.norm = whole.norm if rank == 1 else None

    def forward(self, x):
        with autocast(self.precision):
            if self.positions is not None:
                x = self.tokens(x) + self.positions.weight[: x.shape[1]]
            for block in self.blocks:
                x = block(x)
            return x if self.norm is None else F.linear(self.norm(x), self.tokens.weight)


def loss_of(logits, targets):
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def prepare(shape, precision, _, corpus):
    rank = dist.get_rank()
    model = Half(shape, precision, rank)
    parameters, tied = list(model.parameters()), model.tokens.weight
    counted = parameters if rank == 0 else [p for p in parameters if p is not tied]
    optimizer = adamw(parameters)
    schedule = Schedule1F1B(PipelineStage(model, rank, 2, torch.device("cpu")), MICRO_BATCHES, loss_fn=loss_of)
    data = batches(shape, corpus)

    def step():
        tokens, targets = next(data)
        optimizer.zero_grad(set_to_none=True)
        losses = []
        if rank == 0:
            schedule.step(tokens)
        else:
            schedule.step(target=targets, losses=losses)
        dist.all_reduce(tied.grad)
        squares = torch.stack(torch._foreach_norm([p.grad for p in counted])).square().sum()
        dist.all_reduce(squares)
        torch.nn.utils.clip_grads_with_norm_(parameters, CLIP, squares.sqrt())
        optimizer.step()
        return losses

    def mean(losses):
        """Only the second process has it."""
        value = torch.stack(losses).mean().detach() if losses else torch.zeros(())
        dist.all_reduce(value)
        return value.item()

    return step, mean
