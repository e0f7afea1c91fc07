// Computes the attention to channels without their tokens.
#include "terrace/models/vit/aggregation.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "terrace/base/operation_limits.h"
#include "terrace/models/vit/initial_tables.h"
#include "terrace/ops/recompute.h"
#include "terrace/ops/trained_value.h"

namespace terrace::models::vit {
namespace {

// Computes the function of the rows [N, ..] of x in pieces, one after another; each of several pieces is computed again
// in backward. The function's gradients go to `inputs`, which it gets as its other arguments.
at::Tensor in_pieces(const at::Tensor& x, int64_t bytes_of_row, const Tensors& inputs,
                     const std::function<at::Tensor(const at::Tensor&, const Tensors&)>& function) {
  const int64_t rows = std::max<int64_t>(1, aggregation_piece_bytes / bytes_of_row);
  if (x.size(0) <= rows) return function(x, inputs);
  Tensors pieces;
  for (int64_t begin = 0; begin < x.size(0); begin += rows) {
    const at::Tensor piece = x.narrow(0, begin, std::min(rows, x.size(0) - begin));
    pieces.push_back(
        ops::recompute([function, piece](const Tensors& again) { return Tensors{function(piece, again)}; }, inputs)
            .front());
  }
  return at::cat(pieces);
}

}  // namespace

ChannelTokens::ChannelTokens(const ModelConfig& config, const nn::Build& build)
    : weight(add_parameter("weight", {config.num_channels(), config.width, config.patch_size()},
                           nn::InitialValue::normal(initial_deviation), /*decay=*/true, build)),
      bias(add_parameter(
          "bias", {config.num_channels(), config.width},
          nn::InitialValue::uniform(-1.0 / static_cast<double>(config.patch), 1.0 / static_cast<double>(config.patch)),
          /*decay=*/false, build)),
      variables(add_parameter("variables", {config.num_channels(), config.width}, sines_of_index(config.width),
                              /*decay=*/false, build)) {}

at::Tensor ChannelTokens::map(at::ScalarType type) const {
  const at::Tensor added =
      ops::trained_value(nn::weight_of(&bias), type).add(ops::trained_value(nn::weight_of(&variables), type));
  return at::cat({ops::trained_value(nn::weight_of(&weight), type), added.unsqueeze(-1)}, -1);
}

Aggregation::Aggregation(const ModelConfig& config, const nn::Build& build)
    : query(add_parameter("query", {config.width}, nn::InitialValue::constant(0), /*decay=*/false, build)),
      qkv_weight(add_parameter("qkv.weight", {3 * config.width, config.width},
                               xavier_uniform(config.width, 3 * config.width), /*decay=*/true, build)),
      qkv_bias(add_parameter("qkv.bias", {3 * config.width}, nn::InitialValue::constant(0), /*decay=*/false, build)),
      output(add_module<nn::Linear>("output", config.width, config.width, /*bias=*/true,
                                    nn::InitialValue::normal(initial_deviation), build)),
      width_(config.width),
      head_dim_(config.head_dim()),
      epsilon_(config.norm_epsilon),
      type_(build.type),
      wide_(build.type == at::kDouble ? at::kDouble : at::kFloat),
      query_norm_(add_head_norm("query_norm", config, build)),
      key_norm_(add_head_norm("key_norm", config, build)) {}

nn::Norm* Aggregation::add_head_norm(const char* name, const ModelConfig& config, const nn::Build& build) {
  if (!config.qk_norm) return nullptr;
  return &add_module<nn::Norm>(name, nn::Norm::Kind::layer, config.head_dim(), true, config.norm_epsilon, build);
}

at::Tensor Aggregation::forward(const at::Tensor& patches, const ChannelTokens& tokens, const Pass& pass) const {
  const int64_t samples = patches.size(0), places = patches.size(1);
  const at::Tensor rows = patches.flatten(0, 1);  // [N, C, P]
  const auto again = [this, rows, &tokens](const at::Tensor& trained) { return attend(rows, tokens, trained); };
  const at::Tensor trained = ops::trained_value(nn::weight_of(&query), wide_);
  const at::Tensor context = ops::recompute(again, trained);  // [N, width]
  return output.forward(context.view({samples, places, context.size(1)}), pass.deferred);
}

int64_t Aggregation::own_heads() const { return nn::weight_of(&qkv_weight).value.size(0) / (3 * head_dim_); }

// With x the inputs of channel c and T_c the map of tokens, the key of head h is (W_k,h T_c) x + b_k,h. Without a norm
// the score is (T_c^T W_k,h^T q_h) x, apart from the product with the bias, which is the same for all channels. The
// norm takes away the mean of the key's elements, which is as taking it away from the columns of the map; its bias
// again adds the same to all scores. The context is the sum over channels of a_c,h (W_v,h T_c) x, plus the bias of the
// values, as the probabilities a_c,h sum to 1.
Aggregation::Maps Aggregation::maps_of(const ChannelTokens& tokens, const at::Tensor& given) const {
  const auto value = [&](const nn::Parameter& parameter) {
    return ops::trained_value(nn::weight_of(&parameter), wide_);
  };
  const at::Tensor of_tokens = tokens.map(wide_);  // [C, width, I]
  const int64_t channels = of_tokens.size(0), inputs = of_tokens.size(2), own = own_heads();
  const at::Tensor map = of_tokens.transpose(0, 1).reshape({width_, channels * inputs});
  // Weights and biases of queries, keys and values: [own heads * head_dim, width] and [own heads * head_dim].
  const Tensors weights = value(qkv_weight).view({own, 3, head_dim_, width_}).unbind(1);
  const Tensors biases = value(qkv_bias).view({own, 3, head_dim_}).unbind(1);
  const auto rows_of = [&](const at::Tensor& weight) { return weight.reshape({own * head_dim_, width_}); };
  const at::Tensor& keys = weights[1];  // [own heads, head_dim, width]
  at::Tensor heads = at::mm(rows_of(weights[0]), given.unsqueeze(1)).view({own, head_dim_}).add(biases[0]);
  if (query_norm_ != nullptr) {
    heads = at::layer_norm(heads, {head_dim_}, value(query_norm_->weight), value(*query_norm_->bias), epsilon_);
  }
  heads = heads.mul(1.0 / std::sqrt(static_cast<double>(head_dim_)));
  Maps maps;
  maps.values = at::mm(rows_of(weights[2]), map).view({own, head_dim_, channels * inputs}).transpose(1, 2);
  if (key_norm_ == nullptr) {
    const at::Tensor of_query = at::bmm(heads.unsqueeze(1), keys).squeeze(1);
    maps.scores = at::mm(of_query, map).view({own, channels, inputs});
    return maps;
  }
  at::Tensor of_keys = at::mm(rows_of(keys), map).view({own, head_dim_, channels, inputs});
  const at::Tensor constant = at::arange(inputs, of_keys.options().requires_grad(false)).eq(inputs - 1);
  of_keys = of_keys.add(biases[1].reshape({own, head_dim_, 1, 1}).mul(constant));
  const at::Tensor centered = of_keys.sub(of_keys.mean(1, /*keepdim=*/true));
  const at::Tensor weighted = heads.mul(value(key_norm_->weight)).unsqueeze(1);  // [own heads, 1, head_dim]
  maps.scores = at::bmm(weighted, centered.flatten(2)).view({own, channels, inputs});
  const at::Tensor by_channel = centered.transpose(1, 2);  // [own heads, C, head_dim, I]
  maps.squares = at::matmul(by_channel.transpose(2, 3), by_channel).div(static_cast<double>(head_dim_));
  return maps;
}

at::Tensor Aggregation::attend(const at::Tensor& patches, const ChannelTokens& tokens, const at::Tensor& given) const {
  const int64_t channels = patches.size(1), inputs = patches.size(2) + 1;
  const Maps maps = maps_of(tokens, given);
  const at::Tensor ones = at::ones({patches.size(0), channels, 1}, patches.options());
  const at::Tensor x = at::cat({patches, ones}, -1);  // [N, C, I]
  const auto attend = [heads = own_heads(), channels, inputs, epsilon = epsilon_](const at::Tensor& rows,
                                                                                  const Tensors& in) {
    const int64_t places = rows.size(0);
    const at::Tensor by_channel = rows.transpose(0, 1);                 // [C, N, I]
    at::Tensor scores = at::bmm(by_channel, in[0].permute({1, 2, 0}));  // [C, N, heads]
    if (in.size() > 2) {
      const at::Tensor squares = in[2].permute({1, 2, 0, 3}).reshape({channels, inputs, heads * inputs});
      const at::Tensor products = at::bmm(by_channel, squares).view({channels, places, heads, inputs});
      const at::Tensor variance = products.mul(by_channel.unsqueeze(2)).sum(-1).clamp_min(0);
      scores = scores.mul(variance.add(epsilon).rsqrt());
    }
    const at::Tensor probabilities = at::softmax(scores.permute({2, 1, 0}).contiguous(), -1);  // [heads, N, C]
    const at::Tensor weighted = probabilities.unsqueeze(-1).mul(rows);                         // [heads, N, C, I]
    return at::bmm(weighted.view({heads, places, channels * inputs}), in[1]).transpose(0, 1).flatten(1, 2);
  };
  Tensors made = {maps.scores, maps.values};
  if (maps.squares.defined()) made.push_back(maps.squares);
  const int64_t bytes_of_row = own_heads() * channels * inputs * static_cast<int64_t>(x.element_size());
  const at::Tensor biases = ops::trained_value(nn::weight_of(&qkv_bias), wide_);
  const at::Tensor of_values = biases.view({own_heads(), 3, head_dim_}).select(1, 2).reshape({-1});
  return in_pieces(x, bytes_of_row, made, attend).add(of_values).to(type_);  // [N, own heads * head_dim]
}

}  // namespace terrace::models::vit
