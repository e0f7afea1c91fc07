// The smallest program that uses the installed library: a model is built without memory and its parameters are counted.
#include <cstdio>

#include "terrace/models/gpt/model.h"

int main() {
  const terrace::models::gpt::ModelConfig config{.layers = 2,
                                                 .width = 8,
                                                 .heads = 2,
                                                 .kv_heads = 2,
                                                 .head_dim = 4,
                                                 .ffn_width = 32,
                                                 .sequence = 16,
                                                 .vocabulary = 100};
  const auto model = terrace::models::gpt::build_model(config, {.device = at::kMeta});
  long long count = 0;
  for (const terrace::nn::Parameter* parameter : model->parameters()) count += parameter->value.numel();
  // Embeddings 128 * 8 + 16 * 8; a block 8 * 24 + 24 + 8 * 8 + 8 + 2 * 8 * 32 + 32 + 8 and two norms of 16; a norm
  // of 16.
  std::printf("%lld parameters\n", count);
  return count == 1024 + 128 + 2 * (840 + 32) + 16 ? 0 : 1;
}
