// Lists the names that Megatron-LM, DeepSpeed, nanoGPT, torchtitan and Python's transformers give to our keys.
#include "terrace/config/other_names.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace terrace::config {
namespace {

struct OtherName {
  std::string_view other, own;
};

constexpr std::array other_names = {
    OtherName{"activation_function", "model.activation"},
    OtherName{"adam_beta1", "optimizer.beta1"},
    OtherName{"adam_beta2", "optimizer.beta2"},
    OtherName{"adam_eps", "optimizer.epsilon"},
    OtherName{"adam_epsilon", "optimizer.epsilon"},
    OtherName{"add_qkv_bias", "model.qkv_bias"},
    OtherName{"batch", "train.global_batch"},
    OtherName{"batch_size", "train.global_batch"},
    OtherName{"block_size", "model.sequence"},
    OtherName{"checkpoint_dir", "checkpoint.folder"},
    OtherName{"clip_grad", "optimizer.clip"},
    OtherName{"context_length", "model.sequence"},
    OtherName{"d_ff", "model.ffn_width"},
    OtherName{"d_model", "model.width"},
    OtherName{"dataset", "data.train"},
    OtherName{"dtype", "train.precision"},
    OtherName{"embedding_size", "model.width"},
    OtherName{"epsilon_adam", "optimizer.epsilon"},
    OtherName{"eval_every", "train.evaluate_every"},
    OtherName{"eval_interval", "train.evaluate_every"},
    OtherName{"eval_iters", "train.evaluate_batches"},
    OtherName{"ffn_hidden_size", "model.ffn_width"},
    OtherName{"global_batch_size", "train.global_batch"},
    OtherName{"grad_clip", "optimizer.clip"},
    OtherName{"gradient_clip", "optimizer.clip"},
    OtherName{"gradient_clipping", "optimizer.clip"},
    OtherName{"hidden_act", "model.activation"},
    OtherName{"hidden_dim", "model.width"},
    OtherName{"hidden_size", "model.width"},
    OtherName{"intermediate_size", "model.ffn_width"},
    OtherName{"learning_rate_decay_steps", "optimizer.decay_steps"},
    OtherName{"log_interval", "train.log_every"},
    OtherName{"lr", "optimizer.learning_rate"},
    OtherName{"lr_decay_iters", "optimizer.decay_steps"},
    OtherName{"lr_decay_steps", "optimizer.decay_steps"},
    OtherName{"lr_decay_style", "optimizer.schedule"},
    OtherName{"lr_scheduler", "optimizer.schedule"},
    OtherName{"lr_scheduler_type", "optimizer.schedule"},
    OtherName{"lr_warmup_iters", "optimizer.warmup_steps"},
    OtherName{"lr_warmup_steps", "optimizer.warmup_steps"},
    OtherName{"max_grad_norm", "optimizer.clip"},
    OtherName{"max_iters", "train.steps"},
    OtherName{"max_lr", "optimizer.learning_rate"},
    OtherName{"max_position_embeddings", "model.sequence"},
    OtherName{"max_seq_len", "model.sequence"},
    OtherName{"max_seq_length", "model.sequence"},
    OtherName{"max_steps", "train.steps"},
    OtherName{"mbs", "train.micro_batch"},
    OtherName{"micro_batch_size", "train.micro_batch"},
    OtherName{"min_lr", "optimizer.min_learning_rate"},
    OtherName{"n_ctx", "model.sequence"},
    OtherName{"n_embd", "model.width"},
    OtherName{"n_head", "model.heads"},
    OtherName{"n_heads", "model.heads"},
    OtherName{"n_kv_heads", "model.kv_heads"},
    OtherName{"n_layer", "model.layers"},
    OtherName{"n_layers", "model.layers"},
    OtherName{"n_positions", "model.sequence"},
    OtherName{"num_attention_heads", "model.heads"},
    OtherName{"num_heads", "model.heads"},
    OtherName{"num_hidden_layers", "model.layers"},
    OtherName{"num_key_value_heads", "model.kv_heads"},
    OtherName{"num_layers", "model.layers"},
    OtherName{"num_query_groups", "model.kv_heads"},
    OtherName{"output_dir", "checkpoint.folder"},
    OtherName{"per_device_train_batch_size", "train.micro_batch"},
    OtherName{"pipeline_model_parallel_size", "layout.pipeline"},
    OtherName{"pipeline_parallel", "layout.pipeline"},
    OtherName{"pipeline_parallel_size", "layout.pipeline"},
    OtherName{"pp", "layout.pipeline"},
    OtherName{"qk_layernorm", "model.qk_norm"},
    OtherName{"rms_norm_eps", "model.norm_epsilon"},
    OtherName{"rotary_base", "model.rope_theta"},
    OtherName{"save", "checkpoint.folder"},
    OtherName{"save_dir", "checkpoint.folder"},
    OtherName{"save_every", "checkpoint.every"},
    OtherName{"save_interval", "checkpoint.every"},
    OtherName{"save_steps", "checkpoint.every"},
    OtherName{"save_total_limit", "checkpoint.keep"},
    OtherName{"seq_len", "model.sequence"},
    OtherName{"seq_length", "model.sequence"},
    OtherName{"sequence_length", "model.sequence"},
    OtherName{"sliding_window", "model.window"},
    OtherName{"tensor_model_parallel_size", "layout.tensor"},
    OtherName{"tensor_parallel", "layout.tensor"},
    OtherName{"tensor_parallel_size", "layout.tensor"},
    OtherName{"tie_word_embeddings", "model.tied_head"},
    OtherName{"tokenizer_model", "data.tokenizer"},
    OtherName{"tokenizer_path", "data.tokenizer"},
    OtherName{"tp", "layout.tensor"},
    OtherName{"train_batch_size", "train.global_batch"},
    OtherName{"train_iters", "train.steps"},
    OtherName{"train_micro_batch_size_per_gpu", "train.micro_batch"},
    OtherName{"train_steps", "train.steps"},
    OtherName{"vocab_size", "model.vocabulary"},
    OtherName{"warmup", "optimizer.warmup_steps"},
    OtherName{"warmup_iters", "optimizer.warmup_steps"},
    OtherName{"weight_decay_rate", "optimizer.weight_decay"},
    OtherName{"zero_stage", "layout.sharding"},
};
static_assert(std::ranges::is_sorted(other_names, {}, &OtherName::other));

}  // namespace

std::string own_name_of(std::string_view name) {
  std::string word;
  for (const char letter : name) {
    word += letter == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  const auto found = std::ranges::lower_bound(other_names, std::string_view(word), std::less<>{}, &OtherName::other);
  return found != other_names.end() && found->other == word ? std::string(found->own) : "";
}

}  // namespace terrace::config
