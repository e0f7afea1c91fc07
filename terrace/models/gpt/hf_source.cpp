// Lists the keys of config.json that do not change what a model computes.
#include "terrace/models/gpt/hf_source.h"

namespace terrace::models::gpt {

const std::set<std::string>& hf_keys_without_effect() {
  static const std::set<std::string> keys{"_attn_implementation",
                                          "_attn_implementation_autoset",
                                          "_name_or_path",
                                          "architectures",
                                          "auto_map",
                                          "bos_token_id",
                                          "chunk_size_feed_forward",
                                          "dtype",
                                          "eos_token_id",
                                          "finetuning_task",
                                          "gradient_checkpointing",
                                          "id2label",
                                          "is_decoder",
                                          "is_encoder_decoder",
                                          "keys_to_ignore_at_inference",
                                          "label2id",
                                          "model_type",
                                          "n_ctx",
                                          "num_labels",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "pad_token_id",
                                          "pretraining_tp",
                                          "problem_type",
                                          "return_dict",
                                          "summary_activation",
                                          "summary_first_dropout",
                                          "summary_proj_to_labels",
                                          "summary_type",
                                          "summary_use_proj",
                                          "task_specific_params",
                                          "tokenizer_class",
                                          "torch_dtype",
                                          "torchscript",
                                          "transformers_version",
                                          "use_cache",
                                          "use_return_dict"};
  return keys;
}

}  // namespace terrace::models::gpt
