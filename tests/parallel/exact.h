// Computes one step in double precision on one rank, by the definition of AdamW.
#pragma once

#include <ATen/ops/linalg_vector_norm.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "tests/parallel/training.h"

namespace terrace::parallel {

// The loss, norm, gradients and weights of the first step of the training.
inline Outcome exact_step(const Training& training) {
  const auto model = small_model(training, at::kDouble);
  nn::initialize(model->parameters(), 5);
  nn::initialize(model->buffers(), 5);
  nn::allocate_gradients(model->parameters(), at::kDouble);
  const models::Batch batch = batch_of(training.first_step, 0, training.sequences);
  const models::Pass pass{.training = true,
                          .seed = 5,
                          .step = training.first_step,
                          .gradient_scales = gradient_scales(training, training.first_step),
                          .sample_scale = 1.0 / static_cast<double>(training.sequences)};
  const int64_t head = model->num_units() - 1;
  const models::Tensors losses = model->loss(head, model->forward(0, head, {}, batch, pass), batch, pass);
  torch::autograd::backward(losses, {});
  nn::collect_autograd_gradients(model->parameters());
  Outcome exact;
  for (const at::Tensor& loss : losses) exact.losses.push_back(loss.item<double>());
  double squares = 0;
  for (const nn::Parameter* parameter : model->parameters()) {
    exact.gradients[parameter->name] = parameter->gradient;
    squares += std::pow(at::linalg_vector_norm(parameter->gradient).item<double>(), 2);
  }
  exact.norms = {std::sqrt(squares)};
  const double multiplier = optim::clip_multiplier(exact.norms[0], training.clip);
  const config::OptimizerConfig adam = optimizer_config();
  for (const nn::Parameter* parameter : model->parameters()) {
    // In the first step, the bias-corrected moments are the gradient and its square.
    const at::Tensor gradient = parameter->gradient.mul(multiplier);
    const at::Tensor start = nn::initial_value(*parameter, 5, at::kFloat).to(at::kDouble);
    const at::Tensor decayed = start.mul(1.0 - (parameter->decay ? learning_rate * adam.weight_decay : 0.0));
    exact.weights[parameter->name] = decayed.sub(gradient.div(gradient.abs().add(adam.epsilon)), learning_rate);
  }
  return exact;
}

}  // namespace terrace::parallel
