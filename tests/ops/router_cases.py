"""Routes tokens by the sparse layers of transformers, whose experts are replaced so that a token's result is its row of
weights."""

import torch
from transformers.models.deepseek_v3 import configuration_deepseek_v3, modeling_deepseek_v3
from transformers.models.mixtral import configuration_mixtral, modeling_mixtral
from transformers.models.olmoe import configuration_olmoe, modeling_olmoe
from transformers.models.qwen2_moe import configuration_qwen2_moe, modeling_qwen2_moe
from transformers.models.qwen3_moe import configuration_qwen3_moe, modeling_qwen3_moe


class UnitVector(torch.nn.Module):
    """An expert whose result has a 1 in the column of its number."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return torch.zeros_like(x).index_fill(-1, torch.tensor([self.number]), 1)


class Nothing(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


def sparse_layer(options, width):
    experts, k, normalised = options["experts"], options["k"], options["normalised"]
    sizes = {"hidden_size": width, "intermediate_size": 2, "num_experts_per_tok": k}
    family = options["family"]
    if family == "mixtral":
        config = configuration_mixtral.MixtralConfig(num_local_experts=experts, **sizes)
        return modeling_mixtral.MixtralSparseMoeBlock(config)
    sizes.update(num_experts=experts, norm_topk_prob=normalised)
    if family == "olmoe":
        return modeling_olmoe.OlmoeSparseMoeBlock(configuration_olmoe.OlmoeConfig(**sizes))
    sizes.update(moe_intermediate_size=2)
    if family == "qwen3_moe":
        return modeling_qwen3_moe.Qwen3MoeSparseMoeBlock(configuration_qwen3_moe.Qwen3MoeConfig(**sizes))
    config = configuration_qwen2_moe.Qwen2MoeConfig(shared_expert_intermediate_size=2, **sizes)
    layer = modeling_qwen2_moe.Qwen2MoeSparseMoeBlock(config)
    layer.shared_expert = Nothing()
    return layer


def block(inputs, options):
    x, weight = inputs["x"].detach().float(), inputs["router"].detach().float()
    layer = sparse_layer(options, x.shape[-1]).float()
    layer.experts = torch.nn.ModuleList([UnitVector(i) for i in range(options["experts"])])
    with torch.no_grad():
        layer.gate.weight.copy_(weight)
        result, _ = layer(x[None])
    return {"weights": result[0, :, : options["experts"]]}


def deepseek_v3(inputs, options):
    x, weight = inputs["x"].detach().float(), inputs["router"].detach().float()
    config = configuration_deepseek_v3.DeepseekV3Config(
        hidden_size=x.shape[-1], n_routed_experts=options["experts"], num_experts_per_tok=options["k"],
        n_group=options["groups"], topk_group=options["groups_kept"], norm_topk_prob=options["normalised"],
        routed_scaling_factor=options["factor"])
    gate = modeling_deepseek_v3.DeepseekV3TopkRouter(config).float()
    with torch.no_grad():
        gate.weight.copy_(weight)
        gate.e_score_correction_bias.copy_(inputs["bias"].detach().float())
        chosen, weights = gate(x)
    return {"weights": torch.zeros(x.shape[0], options["experts"]).scatter(1, chosen, weights)}
