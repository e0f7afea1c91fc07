// Implements the layer of GIN.
#include "terrace/models/gnn/conv_layer.h"
#include "terrace/ops/trained_value.h"

namespace terrace::models::gnn {

GinLayer::GinLayer(const ModelConfig& config, LayerPlace, const nn::Build& build)
    : epsilon_(add_parameter("epsilon", {1}, nn::InitialValue::constant(config.reading == Reading::paper ? 0.0 : 100.0),
                             /*decay=*/false, build)),
      output_(add_module<TwoLayers>("output", config.width, config.width, config.width, config.activation, build)) {}

States GinLayer::forward(const States& states, const Graphs& graphs, const Pass& pass) const {
  const at::Tensor& x = states.scalars;
  const at::Tensor epsilon = ops::trained_value(nn::weight_of(&epsilon_), x.scalar_type(), pass.deferred);
  // The gradient of epsilon is summed over the rows of each column first: torch's sum of all numbers depends on the
  // threads.
  const at::Tensor own = x.mul(epsilon.add(1.0).expand({x.size(1)}));
  const at::Tensor sums = ops::gathered_sum(x, graphs.senders, graphs.receivers);
  return {.scalars = output_.forward(own.add(sums), pass)};
}

}  // namespace terrace::models::gnn
