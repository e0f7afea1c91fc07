// Implements the layer of CGCNN.
#include "terrace/models/gnn/conv_layer.h"
#include "terrace/ops/elements/softplus.h"

namespace terrace::models::gnn {

CgcnnLayer::CgcnnLayer(const ModelConfig& config, LayerPlace, const nn::Build& build)
    : gate_(add_module<EdgeLinear>("gate", config.width, config.edge_columns(), config.width, build)),
      core_(add_module<EdgeLinear>("core", config.width, config.edge_columns(), config.width, build)) {}

States CgcnnLayer::forward(const States& states, const Graphs& graphs, const Pass& pass) const {
  const at::Tensor& features = graphs.geometry.features;
  const at::Tensor gate = gate_.forward(states.scalars, features, graphs, pass).sigmoid();
  const at::Tensor core = ops::softplus(core_.forward(states.scalars, features, graphs, pass));
  return {.scalars = states.scalars.add(ops::segment_sum(graphs.cut_off(gate).mul(core), graphs.receivers))};
}

}  // namespace terrace::models::gnn
