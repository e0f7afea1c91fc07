// Lists the names that Megatron-LM, DeepSpeed, torchtitan, nanotron, llm.c, nanoGPT and Python's transformers, with its
// Trainer, give to the keys that all families share.
#include "terrace/config/other_names.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace terrace::config {
namespace {

// Notes for names of other programs whose key of ours counts something else.
constexpr std::string_view accumulation =
    "It is train.micro_batch times the accumulated micro-batches times the data-parallel ranks";
constexpr std::string_view samples = "It counts steps of train.global_batch samples";
constexpr std::string_view epochs = "It counts steps; terrace train --check prints the samples in an epoch";
constexpr std::string_view share = "It counts steps, not a share of them";
constexpr std::string_view factor = "It is a learning rate, not a share of one";
constexpr std::string_view power = "It is the scale itself: 2 to that power";
constexpr std::string_view chunks = "It counts the virtual stages of a stage";
constexpr std::string_view ramp = "train.ramp_increment and train.ramp_samples go with it";

constexpr std::array shared_names = {
    OtherName{"accumulate_allreduce_grads_in_fp32", "train.gradient_type", "\"fp32\""},
    OtherName{"accumulate_grad_in_fp32", "train.gradient_type", "\"fp32\""},
    OtherName{"activation_checkpoint", "train.recompute"},
    OtherName{"activation_checkpointing", "train.recompute"},
    OtherName{"adam_beta1", "optimizer.beta1"},
    OtherName{"adam_beta2", "optimizer.beta2"},
    OtherName{"adam_eps", "optimizer.epsilon"},
    OtherName{"adam_epsilon", "optimizer.epsilon"},
    OtherName{"batch", "train.global_batch"},
    OtherName{"batch_accumulation_per_replica", "train.global_batch", "", accumulation},
    OtherName{"batch_size", "train.global_batch"},
    OtherName{"beta_1", "optimizer.beta1"},
    OtherName{"beta_2", "optimizer.beta2"},
    OtherName{"bf16", "train.precision", "\"bf16\""},
    OtherName{"checkpoint_dir", "checkpoint.folder"},
    OtherName{"checkpoint_every", "checkpoint.every"},
    OtherName{"checkpoint_interval", "checkpoint.every"},
    OtherName{"checkpoints_keep", "checkpoint.keep"},
    OtherName{"checkpoints_path", "checkpoint.folder"},
    OtherName{"clip_grad", "optimizer.clip"},
    OtherName{"data_parallel_replicate_degree", "layout.sharding"},
    OtherName{"data_parallel_shard_degree", "layout.sharding"},
    OtherName{"decay_type", "optimizer.schedule"},
    OtherName{"distributed_timeout_minutes", "layout.timeout"},
    OtherName{"dtype", "train.precision"},
    OtherName{"enable_tensorboard", "observe.tensorboard", "true"},
    OtherName{"epochs", "train.steps", "", epochs},
    OtherName{"eps", "optimizer.epsilon"},
    OtherName{"epsilon_adam", "optimizer.epsilon"},
    OtherName{"eval_every", "train.evaluate_every"},
    OtherName{"eval_interval", "train.evaluate_every"},
    OtherName{"eval_iters", "train.evaluate_batches"},
    OtherName{"eval_steps", "train.evaluate_every"},
    OtherName{"exit_duration_in_mins", "train.time_limit"},
    OtherName{"final_learning_rate_frac", "optimizer.min_learning_rate", "", factor},
    OtherName{"fp16", "train.precision", "\"fp16\""},
    OtherName{"fsdp", "layout.sharding", "\"zero3\""},
    OtherName{"global_batch_size", "train.global_batch"},
    OtherName{"grad_accum_steps", "train.global_batch", "", accumulation},
    OtherName{"grad_clip", "optimizer.clip"},
    OtherName{"gradient_accumulation", "train.global_batch", "", accumulation},
    OtherName{"gradient_accumulation_steps", "train.global_batch", "", accumulation},
    OtherName{"gradient_checkpointing", "train.recompute", "\"full\""},
    OtherName{"gradient_clip", "optimizer.clip"},
    OtherName{"gradient_clipping", "optimizer.clip"},
    OtherName{"init_from", "train.initial_weights"},
    OtherName{"initial_load_path", "train.initial_weights"},
    OtherName{"initial_scale_power", "train.initial_loss_scale", "", power},
    OtherName{"iteration_step_info_interval", "train.log_every"},
    OtherName{"iterations", "train.steps"},
    OtherName{"keep_latest_k", "checkpoint.keep"},
    OtherName{"learning_rate_decay_steps", "optimizer.decay_steps"},
    OtherName{"limit_val_batches", "train.evaluate_batches"},
    OtherName{"local_batch_size", "train.micro_batch"},
    OtherName{"log_freq", "train.log_every"},
    OtherName{"log_interval", "train.log_every"},
    OtherName{"logging_steps", "train.log_every"},
    OtherName{"loss_scale", "train.initial_loss_scale"},
    OtherName{"lr", "optimizer.learning_rate"},
    OtherName{"lr_decay_iters", "optimizer.decay_steps"},
    OtherName{"lr_decay_samples", "optimizer.decay_steps", "", samples},
    OtherName{"lr_decay_steps", "optimizer.decay_steps"},
    OtherName{"lr_decay_style", "optimizer.schedule"},
    OtherName{"lr_scheduler", "optimizer.schedule"},
    OtherName{"lr_scheduler_type", "optimizer.schedule"},
    OtherName{"lr_warmup_fraction", "optimizer.warmup_steps", "", share},
    OtherName{"lr_warmup_iters", "optimizer.warmup_steps"},
    OtherName{"lr_warmup_samples", "optimizer.warmup_steps", "", samples},
    OtherName{"lr_warmup_steps", "optimizer.warmup_steps"},
    OtherName{"lr_wsd_decay_iters", "optimizer.decay_steps"},
    OtherName{"max_grad_norm", "optimizer.clip"},
    OtherName{"max_iters", "train.steps"},
    OtherName{"max_lr", "optimizer.learning_rate"},
    OtherName{"max_norm", "optimizer.clip"},
    OtherName{"max_steps", "train.steps"},
    OtherName{"mbs", "train.micro_batch"},
    OtherName{"micro_batch_size", "train.micro_batch"},
    OtherName{"min_decay_lr", "optimizer.min_learning_rate"},
    OtherName{"min_lr", "optimizer.min_learning_rate"},
    OtherName{"min_lr_factor", "optimizer.min_learning_rate", "", factor},
    OtherName{"mixed_precision", "train.precision"},
    OtherName{"mixed_precision_param", "train.precision"},
    OtherName{"mixed_precision_reduce", "layout.reduce_type"},
    OtherName{"num_iterations", "train.steps"},
    OtherName{"num_layers_per_virtual_pipeline_stage", "layout.chunks", "", chunks},
    OtherName{"num_steps", "train.steps"},
    OtherName{"num_train_epochs", "train.steps", "", epochs},
    OtherName{"out_dir", "checkpoint.folder"},
    OtherName{"output_dir", "checkpoint.folder"},
    OtherName{"output_log_dir", "checkpoint.folder"},
    OtherName{"per_device_batch_size", "train.micro_batch"},
    OtherName{"per_device_train_batch_size", "train.micro_batch"},
    OtherName{"pipeline_model_parallel_size", "layout.pipeline"},
    OtherName{"pipeline_parallel", "layout.pipeline"},
    OtherName{"pipeline_parallel_degree", "layout.pipeline"},
    OtherName{"pipeline_parallel_microbatch_size", "train.micro_batch"},
    OtherName{"pipeline_parallel_schedule", "layout.schedule"},
    OtherName{"pipeline_parallel_size", "layout.pipeline"},
    OtherName{"pp", "layout.pipeline"},
    OtherName{"pp_engine", "layout.schedule"},
    OtherName{"pretrained_checkpoint", "train.initial_weights"},
    OtherName{"rampup_batch_size", "train.ramp_start", "", ramp},
    OtherName{"random_seed", "train.seed"},
    OtherName{"recompute_activations", "train.recompute", "\"selective\""},
    OtherName{"recompute_granularity", "train.recompute"},
    OtherName{"save", "checkpoint.folder"},
    OtherName{"save_dir", "checkpoint.folder"},
    OtherName{"save_every", "checkpoint.every"},
    OtherName{"save_interval", "checkpoint.every"},
    OtherName{"save_steps", "checkpoint.every"},
    OtherName{"save_total_limit", "checkpoint.keep"},
    OtherName{"steps_per_print", "train.log_every"},
    OtherName{"tensor_model_parallel_size", "layout.tensor"},
    OtherName{"tensor_parallel", "layout.tensor"},
    OtherName{"tensor_parallel_degree", "layout.tensor"},
    OtherName{"tensor_parallel_size", "layout.tensor"},
    OtherName{"tensorboard_dir", "observe.tensorboard", "true"},
    OtherName{"torch_dtype", "train.precision"},
    OtherName{"tp", "layout.tensor"},
    OtherName{"train_batch_size", "train.global_batch"},
    OtherName{"train_iters", "train.steps"},
    OtherName{"train_micro_batch_size", "train.micro_batch"},
    OtherName{"train_micro_batch_size_per_gpu", "train.micro_batch"},
    OtherName{"train_samples", "train.steps", "", samples},
    OtherName{"train_steps", "train.steps"},
    OtherName{"use_distributed_optimizer", "layout.sharding", "\"zero1\""},
    OtherName{"val_check_interval", "train.evaluate_every"},
    OtherName{"val_loss_every", "train.evaluate_every"},
    OtherName{"val_max_steps", "train.evaluate_batches"},
    OtherName{"virtual_pipeline_model_parallel_size", "layout.chunks"},
    OtherName{"warmup", "optimizer.warmup_steps"},
    OtherName{"warmup_iterations", "optimizer.warmup_steps"},
    OtherName{"warmup_iters", "optimizer.warmup_steps"},
    OtherName{"warmup_ratio", "optimizer.warmup_steps", "", share},
    OtherName{"weight_decay_rate", "optimizer.weight_decay"},
    OtherName{"zero_optimization", "layout.sharding"},
    OtherName{"zero_stage", "layout.sharding"},
};

}  // namespace

OwnName own_name_of(std::string_view name, const std::vector<OtherName>& of_family) {
  std::string word;
  for (const char letter : name) {
    word += letter == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  const auto of = [&](const auto& names) -> OwnName {
    const auto found = std::ranges::find(names, word, &OtherName::other);
    if (found == names.end()) return {};
    return {.key = std::string(found->own), .value = std::string(found->value), .note = std::string(found->note)};
  };
  const OwnName shared = of(shared_names);
  return shared.key.empty() ? of(of_family) : shared;
}

}  // namespace terrace::config
