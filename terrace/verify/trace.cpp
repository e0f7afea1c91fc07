// Digests of everything that goes into a unit and comes out of it.
#include "terrace/verify/trace.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace terrace::verify {

uint64_t digest_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  const auto* bytes = static_cast<const unsigned char*>(flat.const_data_ptr());
  const size_t size = flat.nbytes();
  uint64_t digest = size;
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min(sizeof(word), size - at));
    // An odd factor and a rotation are both one to one, so that no single changed word is lost.
    digest = std::rotl((digest ^ word) * 0x9E3779B97F4A7C15, 29);
  }
  return digest;
}

std::string unit_name(models::Model& model, int64_t unit) {
  const std::vector<nn::Parameter*> parameters = model.unit_parameters(unit);
  if (parameters.empty()) return "";
  std::string common = parameters.front()->name;
  for (const nn::Parameter* parameter : parameters) {
    const auto [end, other] = std::ranges::mismatch(common, parameter->name);
    common.erase(end, common.end());
  }
  const size_t dot = common.find_last_of('.');
  return dot == std::string::npos ? common : common.substr(0, dot);
}

TracedModel::TracedModel(std::unique_ptr<models::Model> model) : ForwardingModel(std::move(model)) {}

void TracedModel::begin_step(int64_t step) {
  step_ = step;
  passes_.assign(static_cast<size_t>(num_units()), Passes{});
  losses_.clear();
}

void TracedModel::note(TraceEvent::What what, int64_t micro_batch, int64_t unit, const at::Tensor& tensor,
                       std::string name) {
  trace_.push_back({.step = step_,
                    .micro_batch = micro_batch,
                    .unit = unit,
                    .what = what,
                    .tensor = std::move(name),
                    .digest = digest_of(tensor)});
}

void TracedModel::note_weights(TraceEvent::What what, int64_t micro_batch, int64_t unit) {
  for (const int64_t used : used_units(unit)) {
    for (const nn::Parameter* parameter : unit_parameters(used)) {
      note(what, micro_batch, unit, parameter->value, parameter->name);
    }
  }
}

void TracedModel::note_backward(const at::Tensor& input, int64_t micro_batch, int64_t unit) {
  if (!at::GradMode::is_enabled() || !input.defined() || !input.requires_grad()) return;
  input.register_hook([this, micro_batch, unit](const at::Tensor& gradient) {
    note(TraceEvent::What::input_gradient, micro_batch, unit, gradient);
  });
}

at::Tensor TracedModel::forward_unit(int64_t unit, const at::Tensor& hidden, const models::Batch& batch,
                                     const models::Pass& pass) {
  Passes& passes = passes_[static_cast<size_t>(unit)];
  // What is recomputed runs without autograd first, and with it when it is run again.
  const bool with_graph = at::GradMode::is_enabled();
  const bool again = with_graph && passes.repeats < passes.without_graph;
  const int64_t micro_batch = again ? passes.repeats++ : passes.forwards++;
  if (!with_graph) ++passes.without_graph;
  note_weights(again ? TraceEvent::What::weight_again : TraceEvent::What::weight_forward, micro_batch, unit);
  note_backward(hidden, micro_batch, unit);
  at::Tensor output = ForwardingModel::forward_unit(unit, hidden, batch, pass);
  note(again ? TraceEvent::What::output_again : TraceEvent::What::output, micro_batch, unit, output);
  // A unit's backward begins with its output, when the weights that it needs are there.
  if (!again && with_graph && output.requires_grad()) {
    output.register_hook([this, micro_batch, unit](const at::Tensor&) {
      note_weights(TraceEvent::What::weight_backward, micro_batch, unit);
    });
  }
  return output;
}

at::Tensor TracedModel::loss(const at::Tensor& hidden, const models::Batch& batch, const models::Pass& pass) {
  const int64_t head = num_units() - 1;
  const auto micro_batch = static_cast<int64_t>(losses_.size());
  note_weights(TraceEvent::What::weight_forward, micro_batch, head);
  note_backward(hidden, micro_batch, head);
  at::Tensor loss = ForwardingModel::loss(hidden, batch, pass);
  note(TraceEvent::What::loss, micro_batch, head, loss);
  losses_.push_back(loss.item<double>());
  return loss;
}

}  // namespace terrace::verify
