// Lists the operations of each unit of a GPT from those of its layers, in the order of models/gpt/model.cpp.
#include "terrace/models/gpt/cost/operations.h"

#include <algorithm>

#include "terrace/models/gpt/cost/layer_operations.h"

namespace terrace::models::gpt {

using schedule::memory_pass;
using schedule::Operations;
using schedule::UnitTableOptions;

Operations embedding_operations(const ModelConfig& config, const UnitTableOptions& options) {
  LayerOperations unit(config, options);
  unit.embedding();
  unit.dropout(/*adds=*/false);
  return unit.operations;
}

Operations attention_operations(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t heads = config.heads / options.tensor_ranks;
  const int64_t groups = std::max<int64_t>(1, config.kv_heads / options.tensor_ranks);
  const int64_t joint = (heads + 2 * groups) * config.head_dim, context = heads * config.head_dim;
  LayerOperations unit(config, options);
  unit.norm({.in_residual = true});
  unit.cut_by_outputs("qkv", joint, config.has_qkv_bias());
  if (config.qk_norm) unit.head_norm(heads, groups);
  unit.attention(heads, unit.bytes_of_tokens(joint), unit.bytes_of_tokens(context));
  unit.cut_by_inputs("attention output", context);
  unit.dropout(/*adds=*/false);
  return unit.operations;
}

Operations ffn_operations(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t inner = config.ffn_width / options.tensor_ranks;
  LayerOperations unit(config, options);
  const double inner_bytes = unit.bytes_of_tokens(inner);
  auto &forward = unit.operations.forward, &input_gradient = unit.operations.input_gradient;
  unit.norm({.adds = true, .in_residual = true});
  if (config.activation == Activation::swiglu) {
    unit.cut_by_outputs("ffn first", 2 * inner, config.bias);
    // Within a product, SwiGLU only writes its result beside the pairs; its gradient reads the pairs, and is twice what
    // the product alone would write.
    const bool fused = options.cpu_products;
    forward.push_back(memory_pass("swiglu", fused ? inner_bytes : 3 * inner_bytes, fused ? 0 : 1));
    input_gradient.push_back(memory_pass("swiglu_backward", fused ? 3 * inner_bytes : 5 * inner_bytes, fused ? 0 : 1));
  } else {
    unit.cut_by_outputs("ffn first", inner, config.bias);
    // Within a product, GELU only writes its result beside its input, and its gradient only reads the input.
    const bool fused = options.fused_products && config.activation == Activation::gelu;
    forward.push_back(memory_pass("gelu", fused ? inner_bytes : 2 * inner_bytes, fused ? 0 : 1));
    input_gradient.push_back(memory_pass("gelu_backward", fused ? inner_bytes : 3 * inner_bytes, fused ? 0 : 1));
  }
  unit.cut_by_inputs("ffn second", inner);
  unit.dropout(/*adds=*/true);
  return unit.operations;
}

Operations head_operations(const ModelConfig& config, const UnitTableOptions& options) {
  LayerOperations unit(config, options);
  unit.norm({});
  unit.vocabulary_loss(config.padded_vocabulary() / options.tensor_ranks);
  return unit.operations;
}

}  // namespace terrace::models::gpt
