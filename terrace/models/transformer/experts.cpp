// Routes tokens to experts, computes these, and adds up loads.
#include "terrace/models/transformer/experts.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/ops/cut.h"
#include "terrace/ops/experts/expert_exchange.h"
#include "terrace/ops/experts/expert_rows.h"

namespace terrace::models {
namespace {

// The number of ranks that have other positions of the same sequences.
int64_t ranks_of_sequence(const ops::Cut* cut, const Pass& pass) {
  const int64_t tensor = cut != nullptr && cut->sequence ? cut->ranks->size() : 1;
  return tensor * (pass.context == nullptr ? 1 : pass.context->places.ranks);
}

std::vector<double> numbers_of(const at::Tensor& tensor) {
  const at::Tensor numbers = tensor.to(at::kCPU, at::kDouble).contiguous();
  return {numbers.const_data_ptr<double>(), numbers.const_data_ptr<double>() + numbers.numel()};
}

void add_to(at::Tensor& sum, const at::Tensor& more) { sum = sum.defined() ? sum.add_(more) : more; }

}  // namespace

Experts::Experts(const FeedForwardOptions& layer, const ExpertOptions& options, const std::string& name,
                 const nn::Build& build)
    : options_(options),
      activation_(layer.activation),
      name_(name),
      router_(add_module<nn::Linear>("router", layer.width, options.number, /*bias=*/false, layer.initial,
                                     build.in_fp32())),
      bias_(options.bias ? &add_buffer("router_bias", {options.number}, nn::InitialValue::constant(0.0), build)
                         : nullptr),
      first_(
          add_parameter("experts.first.weight",
                        {options.number, (activation_ == ops::Activation::swiglu ? 2 : 1) * options.width, layer.width},
                        layer.initial, /*decay=*/true, build)),
      second_(add_parameter("experts.second.weight", {options.number, layer.width, options.width},
                            layer.initial_of_outputs, /*decay=*/true, build)),
      shared_(options.shared == 0
                  ? nullptr
                  : &add_module<FeedForward>("shared",
                                             FeedForwardOptions{.width = layer.width,
                                                                .inner_width = options.shared * options.width,
                                                                .activation = layer.activation,
                                                                .bias = false,
                                                                .initial = layer.initial,
                                                                .initial_of_outputs = layer.initial_of_outputs},
                                             name + ".shared", build)),
      shared_gate_(options.shared_gate
                       ? &add_module<nn::Linear>("shared_gate", layer.width, 1, /*bias=*/false, layer.initial, build)
                       : nullptr),
      sums_(std::make_unique<DeviceSums>()) {
  for (nn::Parameter* weight : {&first_, &second_}) {
    // Kernels are chosen by the shape of one expert's matrix.
    weight->products = build.kernels.products[ops::weight_class_of(weight->value.sizes().slice(1))];
    weight->gradient_holds_sum = std::make_shared<bool>(true);
  }
}

at::Tensor Experts::forward(const at::Tensor& x, const ops::Cut* cut, const Batch& batch, const Pass& pass) const {
  const at::Tensor y = routed(x, cut, pass);
  if (shared_ == nullptr) return y;
  const at::Tensor shared = shared_->forward(x, batch, pass);
  if (shared_gate_ == nullptr) return y.add(shared);
  return y.addcmul(shared, at::sigmoid(shared_gate_->forward(x, pass.deferred)));
}

at::Tensor Experts::routed(const at::Tensor& x, const ops::Cut* cut, const Pass& pass) const {
  const ops::Routing routing = route(x, cut, pass);
  const ops::ExpertRows rows = ops::rows_of_choices(routing.choice.experts, options_.number);
  const at::Tensor own = ops::gather_rows(ops::rows_of(x), rows);
  const at::Tensor weights = ops::weights_of_rows(routing.weights, rows);
  const auto compute = [&](const at::Tensor& given, const at::Tensor& p, const std::vector<int64_t>& offsets) {
    return ops::expert_feed_forward(given, p, offsets, {nn::weight_of(&first_), nn::weight_of(&second_)}, activation_,
                                    pass.deferred);
  };
  const at::Tensor computed = pass.experts == nullptr
                                  ? compute(own, weights, rows.offsets)
                                  : ops::compute_on_expert_ranks(own, weights, rows.offsets, *pass.experts, compute);
  return ops::sum_rows(computed, rows).view(x.sizes());
}

ops::RouterLosses Experts::losses_of(const at::Tensor& x, const ops::Cut* cut, const Pass& pass) const {
  ops::RouterLosses losses{.sequences = std::max<int64_t>(1, x.size(0))};
  if (!pass.training) return losses;
  losses.length = x.size(1) * ranks_of_sequence(cut, pass);
  losses.balance_scale = pass.sample_scale * options_.balance_loss;
  losses.z_scale = pass.sample_scale * options_.z_loss / static_cast<double>(losses.length);
  if (options_.balance_loss > 0 && ranks_of_sequence(cut, pass) > 1) {
    losses.sum_counts = [cut, context = pass.context](const at::Tensor& counts) {
      if (cut != nullptr && cut->sequence) cut->ranks->sum(counts, "choices of sequences")->wait();
      if (context != nullptr) context->ranks->sum(counts, "choices of sequences")->wait();
    };
  }
  return losses;
}

ops::Routing Experts::route(const at::Tensor& x, const ops::Cut* cut, const Pass& pass) const {
  const ops::RouterLosses losses = losses_of(x, cut, pass);
  const at::Tensor bias = bias_ != nullptr ? bias_->value : at::Tensor();
  const ops::Weight router = nn::weight_of(&router_.weight);
  if (pass.repeated) {
    const Tensors& made = pass.kept->at(name_);
    const ops::ExpertChoice choice{.experts = made.at(0), .counts = {}, .sequence_counts = made.at(1)};
    return ops::route(x, router, bias, options_.router, losses, pass.deferred, &choice);
  }
  ops::Routing routing = ops::route(x, router, bias, options_.router, losses, pass.deferred);
  const ops::ExpertChoice& choice = routing.choice;
  if (pass.kept != nullptr) (*pass.kept)[name_] = {choice.experts, choice.sequence_counts};
  if (pass.training) {
    const at::NoGradGuard no_grad;
    add_to(sums_->loads, choice.counts.to(at::kDouble));
    const at::Tensor z = routing.z_loss.detach().div(static_cast<double>(losses.length));
    add_to(sums_->losses, at::stack({routing.balance_loss.detach(), z}));
  }
  return routing;
}

Experts::Sums Experts::take_sums() {
  const auto [loads, losses] = std::exchange(*sums_, {});
  if (!loads.defined()) return {.loads = std::vector<double>(static_cast<size_t>(options_.number), 0.0)};
  const std::vector<double> both = numbers_of(losses);
  return {.loads = numbers_of(loads), .balance = both[0], .z = both[1]};
}

void Experts::move_bias(std::span<const double> loads) {
  if (bias_ == nullptr || !bias_->value.defined() || bias_->value.is_meta()) return;
  const at::NoGradGuard no_grad;
  const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(loads.size());
  std::vector<double> change;
  for (const double load : loads) {
    change.push_back(load < mean ? options_.bias_rate : load > mean ? -options_.bias_rate : 0.0);
  }
  bias_->value.add_(at::tensor(change, at::kDouble).to(bias_->value.options()));
}

}  // namespace terrace::models
