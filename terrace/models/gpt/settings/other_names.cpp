// Lists the names that Megatron-LM, DeepSpeed, torchtitan, nanotron, llm.c, nanoGPT and Python's transformers give to
// the keys of a GPT.
#include <array>

#include "terrace/models/gpt/settings/keys.h"

namespace terrace::models::gpt {
namespace {

using config::OtherName;

constexpr const char* tokens = "It counts samples, of model.sequence tokens each";

constexpr std::array names = {
    OtherName{"activation_function", "model.activation"},
    OtherName{"add_qkv_bias", "model.qkv_bias"},
    OtherName{"attention_probs_dropout_prob", "model.attention_dropout"},
    OtherName{"attn_pdrop", "model.attention_dropout"},
    OtherName{"block_size", "model.sequence"},
    OtherName{"context_length", "model.sequence"},
    OtherName{"context_size", "model.sequence"},
    OtherName{"d_ff", "model.ffn_width"},
    OtherName{"d_model", "model.width"},
    OtherName{"data_path", "data.train"},
    OtherName{"dataset", "data.train"},
    OtherName{"dataset_path", "data.train"},
    OtherName{"disable_bias_linear", "model.bias", "false"},
    OtherName{"embd_pdrop", "model.dropout"},
    OtherName{"embedding_size", "model.width"},
    OtherName{"ffn_hidden_size", "model.ffn_width"},
    OtherName{"hidden_act", "model.activation"},
    OtherName{"hidden_dim", "model.width"},
    OtherName{"hidden_dropout", "model.dropout"},
    OtherName{"hidden_dropout_prob", "model.dropout"},
    OtherName{"hidden_size", "model.width"},
    OtherName{"init_method_std", "model.init_std"},
    OtherName{"initializer_range", "model.init_std"},
    OtherName{"input_bin", "data.train"},
    OtherName{"input_val_bin", "data.validation"},
    OtherName{"intermediate_size", "model.ffn_width"},
    OtherName{"kv_channels", "model.head_dim"},
    OtherName{"layer_norm_eps", "model.norm_epsilon"},
    OtherName{"layer_norm_epsilon", "model.norm_epsilon"},
    OtherName{"layernorm_epsilon", "model.norm_epsilon"},
    OtherName{"make_vocab_size_divisible_by", "model.vocabulary_multiple"},
    OtherName{"max_length", "model.sequence"},
    OtherName{"max_position_embeddings", "model.sequence"},
    OtherName{"max_seq_len", "model.sequence"},
    OtherName{"max_seq_length", "model.sequence"},
    OtherName{"n_ctx", "model.sequence"},
    OtherName{"n_embd", "model.width"},
    OtherName{"n_head", "model.heads"},
    OtherName{"n_heads", "model.heads"},
    OtherName{"n_inner", "model.ffn_width"},
    OtherName{"n_kv_heads", "model.kv_heads"},
    OtherName{"n_layer", "model.layers"},
    OtherName{"n_layers", "model.layers"},
    OtherName{"n_positions", "model.sequence"},
    OtherName{"normalization", "model.norm"},
    OtherName{"num_attention_heads", "model.heads"},
    OtherName{"num_heads", "model.heads"},
    OtherName{"num_hidden_layers", "model.layers"},
    OtherName{"num_key_value_heads", "model.kv_heads"},
    OtherName{"num_kv_heads", "model.kv_heads"},
    OtherName{"num_layers", "model.layers"},
    OtherName{"num_query_groups", "model.kv_heads"},
    OtherName{"pad_vocab_size_multiple_of", "model.vocabulary_multiple"},
    OtherName{"position_embedding_type", "model.positions"},
    OtherName{"qk_layernorm", "model.qk_norm"},
    OtherName{"reset_attention_mask", "data.reset_at_documents", "true"},
    OtherName{"reset_position_ids", "data.reset_at_documents", "true"},
    OtherName{"resid_pdrop", "model.dropout"},
    OtherName{"rms_norm_eps", "model.norm_epsilon"},
    OtherName{"rotary_base", "model.rope_theta"},
    OtherName{"seq_len", "model.sequence"},
    OtherName{"seq_length", "model.sequence"},
    OtherName{"sequence_length", "model.sequence"},
    OtherName{"sliding_window", "model.window"},
    OtherName{"split", "data.validation_share"},
    OtherName{"swiglu", "model.activation", "\"swiglu\""},
    OtherName{"tie_word_embeddings", "model.tied_head"},
    OtherName{"tokenizer_model", "data.tokenizer"},
    OtherName{"tokenizer_path", "data.tokenizer"},
    OtherName{"total_batch_size", "train.global_batch", "", tokens},
    OtherName{"train_data_path", "data.train"},
    OtherName{"train_data_pattern", "data.train"},
    OtherName{"untie_embeddings_and_output_weights", "model.tied_head", "false"},
    OtherName{"val_data_pattern", "data.validation"},
    OtherName{"valid_data_path", "data.validation"},
    OtherName{"vocab_file", "data.tokenizer"},
    OtherName{"vocab_size", "model.vocabulary"},
    OtherName{"window_size", "model.window"},
};

}  // namespace

std::vector<config::OtherName> other_names() { return {names.begin(), names.end()}; }

}  // namespace terrace::models::gpt
