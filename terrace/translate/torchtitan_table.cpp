// Lists the keys of torchtitan's configurations of 2024 and 2025 with what they mean here. The names are those of
// torchtitan/config_manager.py and torchtitan/config/job_config.py (github.com/pytorch/torchtitan). Keys have moved
// between tables, so some stand here several times.
#include "terrace/translate/torchtitan_table.h"

#include <array>

namespace terrace::translate {
namespace {

using enum Meaning;

constexpr std::string_view on_device = "states are kept on the device";
constexpr std::string_view no_float8 = "products are computed in fp32, bf16 or fp16";
constexpr std::string_view compiled = "the description of the program says which kernels it has";
constexpr std::string_view overlapped = "the description of the program says what it overlaps";
constexpr std::string_view divided = "stages divide the layers alike, or as layout.stage_layers says";
constexpr std::string_view master = "master weights and sums of gradients are fp32";

constexpr std::array titan_rows = {
    Row{"model.name", part},
    Row{"model.flavor", part, "model.layers"},
    Row{"model.norm_type", part, "model.norm"},
    Row{"model.converters", part},
    Row{"model.print_after_conversion", no_effect},
    Row{"model.tokenizer_path", no_effect},
    Row{"model.hf_assets_path", no_effect},
    Row{"training.batch_size", part, "train.micro_batch"},
    Row{"training.local_batch_size", part, "train.micro_batch"},
    Row{"training.global_batch_size", part, "train.global_batch"},
    Row{"training.seq_len", count, "model.sequence"},
    Row{"training.steps", count, "train.steps"},
    Row{"training.max_norm", real, "optimizer.clip"},
    Row{"training.mixed_precision_param", word, "train.precision", "bfloat16=bf16|float32=fp32"},
    Row{"training.mixed_precision_reduce", refused, "", master, "float32"},
    Row{"training.dtype", refused, "", master, "float32"},
    Row{"training.seed", whole, "train.seed"},
    Row{"training.deterministic", no_twin, "", "the plan is of the usual kernels"},
    Row{"training.enable_cpu_offload", refused, "", on_device, "false"},
    Row{"training.compile", part},
    Row{"training.warmup_steps", part, "optimizer.warmup_steps"},
    Row{"training.enable_fp8_linear", refused, "", no_float8, "false"},
    Row{"training.fp8_linear", refused, "", no_float8},
    Row{"training.dataset*", no_effect},
    Row{"training.gc_*", no_effect},
    Row{"training.data_parallel_degree", part, "layout.sharding"},
    Row{"training.data_parallel_replicate_degree", part, "layout.sharding"},
    Row{"training.data_parallel_shard_degree", part, "layout.sharding"},
    Row{"training.tensor_parallel_degree", part, "layout.tensor"},
    Row{"training.enable_loss_parallel", no_effect},
    Row{"training.disable_loss_parallel", no_twin, "", "the head is cut over the tensor ranks"},
    Row{"training.debug_*", no_effect},
    Row{"parallelism.data_parallel_replicate_degree", part, "layout.sharding"},
    Row{"parallelism.data_parallel_shard_degree", part, "layout.sharding"},
    Row{"parallelism.fsdp_reshard_after_forward", part, "layout.sharding"},
    Row{"parallelism.tensor_parallel_degree", part, "layout.tensor"},
    Row{"parallelism.disable_loss_parallel", no_twin, "", "the head is cut over the tensor ranks"},
    Row{"parallelism.enable_async_tensor_parallel", no_twin, "", overlapped},
    Row{"parallelism.pipeline_parallel_degree", part, "layout.pipeline"},
    Row{"parallelism.pipeline_parallel_schedule", part, "layout.schedule"},
    Row{"parallelism.pipeline_parallel_schedule_csv", refused, "layout.schedule",
        "schedules are those of docs/schedules.md"},
    Row{"parallelism.pipeline_parallel_microbatch_size", part, "train.micro_batch"},
    Row{"parallelism.pipeline_parallel_microbatches", part, "train.micro_batch"},
    Row{"parallelism.pipeline_parallel_layers_per_stage", part, "layout.chunks"},
    Row{"parallelism.pipeline_parallel_split_points", refused, "layout.stage_layers", divided},
    Row{"parallelism.module_fqns_per_model_part", refused, "layout.stage_layers", divided},
    Row{"parallelism.pipeline_parallel_first_stage_less_layers", refused, "layout.stage_layers", divided, "1"},
    Row{"parallelism.pipeline_parallel_last_stage_less_layers", refused, "layout.stage_layers", divided, "1"},
    Row{"parallelism.context_parallel_degree", part, "layout.context"},
    Row{"parallelism.context_parallel_rotate_method", part, "layout.context_route"},
    Row{"parallelism.expert_parallel_degree", refused, "", "there are no experts here", "1"},
    Row{"parallelism.expert_tensor_parallel_degree", no_effect},
    Row{"parallelism.enable_compiled_autograd", no_twin, "", compiled},
    Row{"experimental.context_parallel_degree", part, "layout.context"},
    Row{"experimental.context_parallel_rotate_method", part, "layout.context_route"},
    Row{"experimental.pipeline_parallel_degree", part, "layout.pipeline"},
    Row{"experimental.pipeline_parallel_schedule", part, "layout.schedule"},
    Row{"experimental.pipeline_parallel_microbatches", part, "train.micro_batch"},
    Row{"experimental.pipeline_parallel_split_points", refused, "layout.stage_layers", divided},
    Row{"experimental.enable_async_tensor_parallel", no_twin, "", overlapped},
    Row{"experimental.enable_compiled_autograd", no_twin, "", compiled},
    Row{"experimental.custom_*", no_effect},
    Row{"activation_checkpoint.mode", part, "train.recompute"},
    Row{"activation_checkpoint.selective_ac_option", part, "train.recompute"},
    Row{"activation_checkpoint.*", no_effect},
    Row{"optimizer.name", refused, "", "the optimizer is AdamW", "AdamW"},
    Row{"optimizer.lr", real, "optimizer.learning_rate"},
    Row{"optimizer.beta1", real, "optimizer.beta1"},
    Row{"optimizer.beta2", real, "optimizer.beta2"},
    Row{"optimizer.eps", real, "optimizer.epsilon"},
    Row{"optimizer.weight_decay", real, "optimizer.weight_decay"},
    Row{"optimizer.implementation", no_twin, "", compiled},
    Row{"optimizer.fused", no_twin, "", compiled},
    Row{"optimizer.early_step_in_backward", no_twin, "", "weights are updated after the whole backward"},
    Row{"lr_scheduler.warmup_steps", part, "optimizer.warmup_steps"},
    Row{"lr_scheduler.decay_ratio", part, "optimizer.schedule"},
    Row{"lr_scheduler.decay_type", part, "optimizer.schedule"},
    Row{"lr_scheduler.min_lr_factor", part, "optimizer.min_learning_rate"},
    Row{"lr_scheduler.lr_min", part, "optimizer.min_learning_rate"},
    Row{"compile.enable", part},
    Row{"compile.*", no_effect},
    Row{"float8.enable_float8_linear", refused, "", no_float8, "false"},
    // Without a converter none of these has an effect.
    Row{"float8.*", no_effect},
    Row{"mx.*", no_effect},
    Row{"quantize.*", no_effect},
    Row{"fault_tolerance.semi_sync_method", refused, "", "gradients are reduced in every step"},
    Row{"fault_tolerance.*", no_effect},
    Row{"job.*", no_effect},
    Row{"profiling.*", no_effect},
    Row{"metrics.*", no_effect},
    Row{"checkpoint.*", no_effect},
    Row{"comm.*", no_effect},
    Row{"memory_estimation.*", no_effect},
    Row{"validation.*", no_effect},
    Row{"debug.*", no_effect},
};

// Published sizes of Llama 3 and 3.1 (arXiv 2407.21783, table 3); of "debugmodel" those of torchtitan.
constexpr std::array flavors = {
    TitanFlavor{"debugmodel", 6, 256, 16, 16, 768, 2048},
    TitanFlavor{"8B", 32, 4096, 32, 8, 14'336, 128'256},
    TitanFlavor{"70B", 80, 8192, 64, 8, 28'672, 128'256},
    TitanFlavor{"405B", 126, 16'384, 128, 8, 53'248, 128'256},
};

}  // namespace

std::span<const Row> torchtitan_table() { return titan_rows; }
std::span<const TitanFlavor> llama3_flavors() { return flavors; }

}  // namespace terrace::translate
