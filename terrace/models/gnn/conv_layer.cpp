// Chooses the layer, and places norm and activation behind it.
#include "terrace/models/gnn/conv_layer.h"

#include "terrace/base/error.h"

namespace terrace::models::gnn {
namespace {

bool activates_behind(const ModelConfig& config) {
  const bool is_plain = config.conv == Conv::pna || config.conv == Conv::gin || config.conv == Conv::gatv2;
  return is_plain || config.reading == Reading::hydragnn;
}

}  // namespace

NetworkLayer::NetworkLayer(const ModelConfig& config, NormKind norm, LayerPlace place, const nn::Build& build)
    : conv_(add_conv(config, place, build)),
      norm_(norm == NormKind::none ? nullptr : &add_module<StateNorm>("norm", norm, config.width, build)),
      activation_(config.activation),
      activates_(activates_behind(config)) {}

ConvLayer& NetworkLayer::add_conv(const ModelConfig& config, LayerPlace place, const nn::Build& build) {
  switch (config.conv) {
    case Conv::schnet:
      return add_module<SchNetLayer>("conv", config, place, build);
    case Conv::painn:
      return add_module<PaiNNLayer>("conv", config, place, build);
    case Conv::egnn:
      return add_module<EgnnLayer>("conv", config, place, build);
    case Conv::pna:
      return add_module<PnaLayer>("conv", config, place, build);
    case Conv::gin:
      return add_module<GinLayer>("conv", config, place, build);
    case Conv::gatv2:
      return add_module<Gatv2Layer>("conv", config, place, build);
    case Conv::cgcnn:
      break;
  }
  return add_module<CgcnnLayer>("conv", config, place, build);
}

States NetworkLayer::forward(const States& states, const Graphs& graphs, const Pass& pass) const {
  States result = conv_.forward(states, graphs, pass);
  if (norm_ != nullptr) result.scalars = norm_->forward(result.scalars, pass);
  if (activates_) result.scalars = activated(result.scalars, activation_);
  return result;
}

}  // namespace terrace::models::gnn
