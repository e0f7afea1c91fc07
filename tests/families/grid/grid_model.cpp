// The units of the model.
#include "tests/families/grid/grid_model.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <limits>

#include "terrace/ops/cut.h"
#include "terrace/ops/loss/loss_term.h"
#include "terrace/ops/positions.h"
#include "terrace/ops/products/feed_forward.h"

namespace terrace::grid {
namespace {

constexpr double epsilon = 1e-5;

nn::InitialValue initial() { return nn::InitialValue::normal(0.2); }

// The sums over samples and places of x [B, L, V], each place with its weight [L]: [V].
at::Tensor weighted_sums(const at::Tensor& x, const at::Tensor& weights) {
  return x.mul(weights.view({1, -1, 1})).sum(at::IntArrayRef{0, 1});
}

}  // namespace

GridBlock::GridBlock(const ModelConfig& config, const nn::Build& build)
    : norm_(add_module<nn::Norm>("norm", nn::Norm::Kind::layer, config.width, true, epsilon, build)),
      first_(add_module<nn::Linear>("first", config.width, config.hidden(), true, initial(), build)),
      second_(add_module<nn::Linear>("second", config.hidden(), config.width, true, initial(), build)) {}

at::Tensor GridBlock::forward(const at::Tensor& x, const models::Pass& pass) const {
  const ops::FeedForwardWeights weights{nn::weight_of(&first_.weight), nn::weight_of(first_.bias),
                                        nn::weight_of(&second_.weight), nn::weight_of(second_.bias)};
  return x.add(ops::feed_forward(norm_.forward(x), weights, ops::Activation::gelu, pass.deferred));
}

GridModel::GridModel(const ModelConfig& config, const nn::Build& build)
    : config_(config),
      build_(build),
      embedding_(
          add_module<nn::Linear>("embedding", std::ssize(config.variables) + 1, config.width, true, initial(), build)),
      blocks_([&] {
        std::vector<GridBlock*> blocks;
        for (int64_t layer = 0; layer < config.layers; ++layer) {
          blocks.push_back(&add_module<GridBlock>(fmt::format("blocks.{}", layer), config, build));
        }
        return blocks;
      }()),
      norm_(add_module<nn::Norm>("norm", nn::Norm::Kind::layer, config.width, true, epsilon, build)),
      output_(add_module<nn::Linear>("output", config.width, std::ssize(config.variables), true, initial(), build)) {}

std::vector<nn::Parameter*> GridModel::unit_parameters(int64_t unit) {
  if (unit == 0) return embedding_.parameters();
  if (unit + 1 < num_units()) return blocks_.at(static_cast<size_t>(unit - 1))->parameters();
  std::vector<nn::Parameter*> last = norm_.parameters();
  for (nn::Parameter* parameter : output_.parameters()) last.push_back(parameter);
  return last;
}

models::Tensors GridModel::forward(int64_t begin, int64_t end, const models::Tensors& input, const models::Batch& batch,
                                   const models::Pass& pass) {
  at::Tensor x = input.empty() ? at::Tensor() : input.front();  // [B, L, width]
  for (int64_t unit = begin; unit < end; ++unit) {
    if (unit == 0) {
      const at::Tensor own = ops::own_positions(embedding_.weight.cut, batch["fields"]);
      x = embedding_.forward(own.to(build_.type).contiguous(), pass.deferred);
    } else {
      x = blocks_[static_cast<size_t>(unit - 1)]->forward(x, pass);
    }
  }
  return {x};
}

at::Tensor GridModel::forecast(int64_t begin, const models::Tensors& input, const models::Batch& batch,
                               const models::Pass& pass) {
  const models::Tensors x = begin + 1 == num_units() ? input : forward(begin, num_units() - 1, input, batch, pass);
  const at::Tensor change = output_.forward(norm_.forward(x.front()));  // [B, own L, V]
  const at::Tensor all = ops::all_positions(output_.weight.cut, change, "change");
  return all.to(at::kFloat).add(batch["fields"].narrow(-1, 0, std::ssize(config_.variables)));
}

models::Tensors GridModel::loss(int64_t begin, const models::Tensors& input, const models::Batch& batch,
                                const models::Pass& pass) {
  const at::Tensor& places = batch["weights"];
  const at::Tensor error = forecast(begin, input, batch, pass).sub(batch["targets"]);  // [B, L, V]
  const at::Tensor squares = weighted_sums(error.square(), places);
  const at::Tensor before = batch["fields"].narrow(-1, 0, error.size(-1));
  const at::Tensor lowest = at::full({1}, -std::numeric_limits<float>::infinity(), error.options());
  const at::Tensor of_variables = at::tensor(variable_weights(config_), error.options());
  return {ops::loss_term(squares.mul(of_variables).sum(), pass.gradient_scales.at(0)), squares.detach(),
          weighted_sums(before.sub(batch["targets"]).square(), places),
          at::cat({error.detach().abs().flatten(), lowest}).max()};
}

std::vector<models::LossTerm> GridModel::losses() const {
  const int64_t variables = std::ssize(config_.variables);
  return {{.name = "field"},
          {.name = "squares", .weight = 0, .numbers = variables},
          {.name = "persistence", .weight = 0, .numbers = variables},
          {.name = "largest", .weight = 0, .combine = models::Combine::largest}};
}

models::Outputs GridModel::outputs(int64_t begin, const models::Tensors& input, const models::Batch& batch,
                                   const models::Pass& pass) {
  return {{"forecast", forecast(begin, input, batch, pass).detach()}};
}

std::vector<models::TensorShape> GridModel::output_shapes(int64_t, const models::Batch& batch) const {
  return {{.sizes = {batch.samples.size(0), config_.places(), config_.width}, .type = build_.type, .sequence_dim = 1}};
}

}  // namespace terrace::grid
