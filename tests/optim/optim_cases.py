"""Runs AdamW with clipping over many steps with torch.optim."""

import torch


def adamw(inputs, options):
    weights = {name: torch.nn.Parameter(inputs[name].detach().clone()) for name in ("decayed", "plain")}
    optimizer = torch.optim.AdamW(
        [{"params": [weights["decayed"]], "weight_decay": options["weight_decay"]},
         {"params": [weights["plain"]], "weight_decay": 0.0}],
        betas=(options["beta1"], options["beta2"]), eps=options["epsilon"])
    for step, rate in enumerate(options["rates"]):
        for name, weight in weights.items():
            weight.grad = inputs[f"{name}.step{step}"].detach().clone()
        torch.nn.utils.clip_grad_norm_(weights.values(), options["clip"])
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    return {name: weight.detach() for name, weight in weights.items()}
