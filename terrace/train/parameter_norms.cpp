// Sums squares over the elements that a rank counts, and over ranks where the norms are asked for.
#include "terrace/train/parameter_norms.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>

#include <cmath>

namespace terrace::train {
namespace {

constexpr size_t kept_steps = 3;

}  // namespace

ParameterNorms::ParameterNorms(models::Model& model, parallel::CutModel& cut, optim::AdamW& optimizer)
    : model_(model), cut_(cut), optimizer_(optimizer) {
  for (const nn::Parameter* parameter : model.parameters()) places_.emplace(parameter, places_.size());
}

std::vector<double> ParameterNorms::own_squares(at::Tensor (*of)(const optim::AdamW::State&)) const {
  const at::NoGradGuard no_grad;
  std::vector<size_t> places;
  std::vector<at::Tensor> elements, norms;
  for (const optim::AdamW::State& state : optimizer_.states()) {
    const at::Tensor tensor = of(state);
    for (const optim::ShardPiece& piece : state.shard.own_pieces()) {
      for (const LocalRange& range : counted_ranges(piece.parameter->mark, piece.begin, piece.end)) {
        places.push_back(places_.at(piece.parameter));
        elements.push_back(tensor.narrow(0, piece.at + range.begin - piece.begin, range.end - range.begin));
        norms.push_back(elements.back().norm().to(at::kFloat));
      }
    }
  }
  std::vector<double> squares(places_.size(), 0.0);
  if (norms.empty()) return squares;
  const at::Tensor all = at::stack(norms).to(at::kCPU, at::kDouble);  // waits for a GPU once
  for (size_t i = 0; i < places.size(); ++i) {
    double norm = all.const_data_ptr<double>()[i];
    // Squares of numbers above 2^64 overflow in fp32.
    if (!std::isfinite(norm)) norm = elements[i].to(at::kDouble).norm().item<double>();
    squares[places[i]] += norm * norm;
  }
  return squares;
}

void ParameterNorms::note_gradients(int64_t step, double multiplier) {
  OfStep noted{step, own_squares([](const optim::AdamW::State& state) { return state.shard.gradient; })};
  for (double& square : noted.gradients) square *= multiplier * multiplier;
  noted_.push_back(std::move(noted));
  if (noted_.size() > kept_steps) noted_.pop_front();
}

std::vector<ParameterNorms::OfStep> ParameterNorms::summed(std::vector<OfStep> squares) const {
  for (auto& [step, values] : squares) {
    cut_.groups.control
        ->all_reduce(values.data(), std::ssize(values), comm::Type::fp64, {.what = "norms of parameters"})
        .wait();
    for (double& value : values) value = std::sqrt(value);
  }
  return squares;
}

std::vector<double> ParameterNorms::weights() const {
  return summed({{0, own_squares([](const optim::AdamW::State& state) { return state.master; })}}).front().gradients;
}

std::vector<std::string> ParameterNorms::names() const {
  std::vector<std::string> names;
  for (const nn::Parameter* parameter : model_.parameters()) names.push_back(parameter->name);
  return names;
}

}  // namespace terrace::train
