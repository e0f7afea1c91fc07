// The two layers of a dense feed-forward, and the dropout between them.
#include "terrace/models/transformer/feed_forward.h"

#include <optional>

#include "terrace/models/dropout_site.h"
#include "terrace/ops/products/feed_forward.h"

namespace terrace::models {

FeedForward::FeedForward(const FeedForwardOptions& options, const std::string& name, const nn::Build& build)
    : activation_(options.activation),
      dropout_(options.inner_dropout),
      columns_of_head_(options.inner_width / options.heads),
      name_(name + ".inner"),
      first_(add_module<nn::Linear>("first", options.width, (ops::is_gated(activation_) ? 2 : 1) * options.inner_width,
                                    options.bias, options.initial, build)),
      second_(add_module<nn::Linear>("second", options.inner_width, options.width, options.bias,
                                     options.initial_of_outputs, build)) {}

at::Tensor FeedForward::forward(const at::Tensor& x, const Batch& batch, const Pass& pass) const {
  const ops::FeedForwardWeights weights{nn::weight_of(&first_.weight), nn::weight_of(first_.bias),
                                        nn::weight_of(&second_.weight), nn::weight_of(second_.bias)};
  ops::DropoutSite site = dropout_site_in_layer(dropout_, batch, pass);
  std::optional<ops::InnerDropout> dropout;
  if (site.rate > 0.0) {
    // Between its layers a rank has all positions and some columns, which are those of whole heads.
    site.first_head = first_.first_output() / columns_of_head_;
    dropout = {ops::draw_of(site, name_), weights.first.value.size(0) / columns_of_head_};
  }
  return ops::feed_forward(x, weights, activation_, pass.deferred, dropout);
}

}  // namespace terrace::models
