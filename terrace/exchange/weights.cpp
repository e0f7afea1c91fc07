// Takes names, shapes and marks from a model on the meta device, which allocates no memory.
#include "terrace/exchange/weights.h"

#include <ATen/ops/zeros.h>

#include "terrace/models/families.h"

namespace terrace::exchange {

checkpoint::Collection make_weights(const config::Config& config) {
  const auto model = models::build_model(config, {.device = at::kMeta});
  checkpoint::Collection weights{"weights", {}};
  for (const nn::Parameter* parameter : model->parameters()) {
    weights.tensors.push_back({parameter->name, at::zeros(parameter->value.sizes(), at::kFloat), parameter->mark});
  }
  return weights;
}

}  // namespace terrace::exchange
