// Walks the instruction list; what a chunk saves for a micro-batch lives from its forward to its backward.
#include "terrace/train/executor.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/ops/recompute.h"
#include "terrace/ops/record.h"
#include "terrace/ops/weight.h"

namespace terrace::train {

using schedule::Instruction;
using Kind = Instruction::Kind;

// One micro-batch in one chunk.
struct Executor::Flight {
  at::Tensor input;   // of the chunk, a leaf; undefined in the model's first part
  at::Tensor output;  // with its graph, until the backward
  // From the next part; of the model's last part, whose head is differentiated in the forward, from there.
  at::Tensor output_gradient;
  at::Tensor input_gradient;  // until it has been handed on
  parallel::Incoming activation, gradient;
  bool split = false;  // there is a weight_gradient
  ops::WeightGradientQueue deferred;
};

struct Executor::Step {
  const std::vector<models::Batch>& micro_batches;
  models::Pass pass;
  const std::function<void(double)>& optimizer_step;
  int64_t chunks;
  std::vector<Flight> flights;  // micro-batch by micro-batch
  std::vector<at::Tensor> losses = {};

  Flight& flight(int64_t micro_batch, int64_t chunk) {
    return flights[static_cast<size_t>(micro_batch * chunks + chunk)];
  }
  Flight& flight(const Instruction& i) { return flight(i.micro_batch, i.chunk); }
  const models::Batch& batch(int64_t micro_batch) const { return micro_batches[static_cast<size_t>(micro_batch)]; }
  bool is_last(int64_t micro_batch) const { return micro_batch + 1 == static_cast<int64_t>(micro_batches.size()); }
};

Executor::Executor(models::Model& model, parallel::CutModel& cut, config::Recompute recompute)
    : model_(model),
      cut_(cut),
      sharded_(cut.sharded),
      stage_(cut.stage),
      recompute_(recompute),
      transfers_(cut.stage.group()) {}

Executor::~Executor() = default;

parallel::UnitRange Executor::body(int64_t chunk) const {
  parallel::UnitRange units = stage_.units(chunk);
  if (stage_.is_last(chunk)) --units.end;
  return units;
}

std::vector<int64_t> Executor::hidden_sizes(int64_t unit, const models::Batch& batch) const {
  std::vector<int64_t> sizes = model_.hidden_sizes(unit, batch);
  if (cut_.sequence_ranks() > 1) sizes.at(1) /= cut_.sequence_ranks();
  return sizes;
}

// Unit `unit` of a chunk that ends before unit `end`.
at::Tensor Executor::forward_unit(int64_t unit, int64_t end, const at::Tensor& hidden, const models::Batch& batch,
                                  const models::Pass& pass) {
  sharded_.before_forward(unit);
  at::Tensor output;
  if (unit > 0 && pass.training && recompute_ == config::Recompute::full) {
    const auto segment = [this, unit, batch, pass](const at::Tensor& x) {
      return model_.forward_unit(unit, x, batch, pass);
    };
    output = ops::recompute(segment, hidden);
  } else {
    output = model_.forward_unit(unit, hidden, batch, pass);
  }
  sharded_.after_forward(unit);
  if (pass.training && unit + 1 < end) {
    // Called with the gradient of what lies between two units: the upper one's backward is complete.
    const bool later = pass.deferred != nullptr;
    output.register_hook([this, unit, later](const at::Tensor&) {
      sharded_.after_backward(unit + 1, later);
      sharded_.before_backward(unit);
    });
  }
  return output;
}

// The model's last unit adds to gradients in its forward already, so its backward comes at once.
void Executor::compute_head(Step& step, Flight& flight, int64_t micro_batch) {
  const int64_t head = model_.num_units() - 1;
  const at::Tensor hidden = flight.output.defined() ? flight.output.detach().requires_grad_(true) : at::Tensor();
  sharded_.begin_backward(micro_batch == 0, step.is_last(micro_batch));
  sharded_.before_backward(head);
  const at::Tensor loss = model_.loss(hidden, step.batch(micro_batch), step.pass);
  loss.backward();
  sharded_.after_backward(head, /*weights_later=*/false);
  for (const int64_t copy : stage_.copies()) sharded_.complete_gradient(copy);
  // Without its graph; its number is read when the step is done: on a GPU that waits for the device.
  step.losses.push_back(loss.detach());
  flight.output_gradient = hidden.grad();
}

void Executor::forward(Step& step, const Instruction& instruction) {
  const ops::PhaseRecord record("forward");
  Flight& flight = step.flight(instruction);
  const models::Batch& batch = step.batch(instruction.micro_batch);
  models::Pass pass = step.pass;
  if (flight.split) pass.deferred = &flight.deferred;
  if (!stage_.is_first(instruction.chunk)) {
    if (flight.activation.expected()) flight.input = flight.activation.take();
    flight.input.requires_grad_(true);
  }
  const auto [begin, end] = body(instruction.chunk);
  at::Tensor hidden = flight.input;
  for (int64_t unit = begin; unit < end; ++unit) hidden = forward_unit(unit, end, hidden, batch, pass);
  flight.output = hidden;
  if (stage_.is_last(instruction.chunk)) {
    compute_head(step, flight, instruction.micro_batch);
  } else if (const int64_t next = stage_.chunk_here_after(instruction.chunk); next >= 0) {
    step.flight(instruction.micro_batch, next).input = hidden.detach();
  }
}

// Gradients with respect to the input of the chunk and, where they are not put off, of the weights.
void Executor::backward(Step& step, const Instruction& instruction) {
  const ops::PhaseRecord record("backward");
  Flight& flight = step.flight(instruction);
  if (flight.gradient.expected()) flight.output_gradient = flight.gradient.take();
  const auto [begin, end] = body(instruction.chunk);
  if (end > begin) {
    sharded_.begin_backward(instruction.micro_batch == 0, step.is_last(instruction.micro_batch));
    sharded_.before_backward(end - 1);
    flight.output.backward(flight.output_gradient);
    sharded_.after_backward(begin, flight.split);
    flight.input_gradient = flight.input.defined() ? flight.input.grad() : at::Tensor();
  } else {
    flight.input_gradient = flight.output_gradient;  // the part is the head alone
  }
  flight.output.reset();
  flight.output_gradient.reset();
  flight.input.reset();
  if (const int64_t below = stage_.chunk_here_before(instruction.chunk); below >= 0) {
    step.flight(instruction.micro_batch, below).output_gradient = std::exchange(flight.input_gradient, {});
  }
}

void Executor::weight_gradient(Step& step, const Instruction& instruction) {
  const ops::PhaseRecord record("weight gradient");
  const auto [begin, end] = body(instruction.chunk);
  sharded_.begin_backward(instruction.micro_batch == 0, step.is_last(instruction.micro_batch));
  for (int64_t unit = end - 1; unit >= begin; --unit) sharded_.take_gradient(unit);
  step.flight(instruction).deferred.run();
  for (int64_t unit = end - 1; unit >= begin; --unit) sharded_.complete_gradient(unit);
}

// The order in which weights are used. A unit whose weight gradients are computed by themselves needs no weights there.
std::vector<parallel::UnitUse> Executor::unit_uses(const schedule::Instructions& instructions) const {
  std::vector<parallel::UnitUse> uses;
  for (const Instruction& instruction : instructions) {
    const auto [begin, end] = body(instruction.chunk);
    if (instruction.kind == Kind::forward) {
      for (int64_t unit = begin; unit < end; ++unit) uses.push_back({unit, "forward"});
      if (stage_.is_last(instruction.chunk)) uses.push_back({end, "backward"});
    } else if (instruction.kind == Kind::backward || instruction.kind == Kind::input_gradient) {
      for (int64_t unit = end - 1; unit >= begin; --unit) uses.push_back({unit, "backward"});
    }
  }
  return uses;
}

void Executor::execute(Step& step, const Instruction& instruction) {
  Flight& flight = step.flight(instruction);
  const auto label = [&](const char* what) {
    return comm::Label{.what = what, .unit = -1, .phase = "", .micro_batch = instruction.micro_batch};
  };
  const auto receive = [&](int64_t unit, const char* what) {
    return transfers_.receive(hidden_sizes(unit, step.batch(instruction.micro_batch)), model_.hidden_options(),
                              instruction.peer, label(what));
  };
  transfers_.advance();
  switch (instruction.kind) {
    case Kind::forward:
      return forward(step, instruction);
    case Kind::backward:
    case Kind::input_gradient:
      return backward(step, instruction);
    case Kind::weight_gradient:
      return weight_gradient(step, instruction);
    case Kind::send_activation:
      return transfers_.send(flight.output, instruction.peer, label("activation"));
    case Kind::send_gradient:
      return transfers_.send(std::exchange(flight.input_gradient, {}), instruction.peer, label("gradient"));
    case Kind::receive_activation:
      flight.activation = receive(stage_.units(instruction.chunk).begin - 1, "activation");
      return;
    case Kind::receive_gradient:
      flight.gradient = receive(stage_.units(instruction.chunk).end - 1, "gradient");
      return;
    case Kind::optimizer_step: {
      const ops::PhaseRecord record("optimizer");
      transfers_.finish();
      cut_.finish_gradients();
      double sum = 0;
      for (const at::Tensor& loss : step.losses) sum += loss.item<double>();
      return step.optimizer_step(sum);
    }
  }
}

void Executor::run(const std::vector<models::Batch>& micro_batches, const models::Pass& pass,
                   const std::function<void(double)>& optimizer_step) {
  const schedule::Instructions& instructions = cut_.instructions(static_cast<int64_t>(micro_batches.size()));
  const int64_t chunks = stage_.placement().chunks;
  Step step{.micro_batches = micro_batches,
            .pass = pass,
            .optimizer_step = optimizer_step,
            .chunks = chunks,
            .flights = std::vector<Flight>(micro_batches.size() * static_cast<size_t>(chunks))};
  step.pass.training = true;
  step.pass.first_position = cut_.tensor.first_position(micro_batches.front().tokens.size(1));
  step.pass.recompute_attention = recompute_ == config::Recompute::selective;
  for (const Instruction& instruction : instructions) {
    if (instruction.kind == Kind::weight_gradient) step.flight(instruction).split = true;
  }
  sharded_.expect(unit_uses(instructions));
  for (const Instruction& instruction : instructions) execute(step, instruction);
}

// The parts one after another, wherever they are. A stage that has handed its hidden states on is done with the batch.
double Executor::evaluate(const models::Batch& batch) {
  const at::NoGradGuard no_grad;
  const schedule::Placement& placement = stage_.placement();
  const int64_t own = stage_.number(), head = model_.num_units() - 1;
  const models::Pass pass;
  std::vector<parallel::UnitUse> uses;
  for (int64_t part = 0; part < placement.parts(); ++part) {
    if (placement.stage_of(part) != own) continue;
    const parallel::UnitRange& units = stage_.units(placement.chunk_of(part));
    for (int64_t unit = units.begin; unit < units.end; ++unit) uses.push_back({unit, "forward"});
  }
  sharded_.expect(std::move(uses));
  double loss = 0;
  at::Tensor hidden;
  for (int64_t part = 0; part < placement.parts(); ++part) {
    if (placement.stage_of(part) != own) continue;
    const parallel::UnitRange& units = stage_.units(placement.chunk_of(part));
    const int64_t before = part == 0 ? own : placement.stage_of(part - 1);
    if (before != own) {
      hidden = transfers_
                   .receive(hidden_sizes(units.begin - 1, batch), model_.hidden_options(), before,
                            {.what = "activation", .phase = "evaluation"})
                   .take();
    }
    for (int64_t unit = units.begin; unit < std::min(units.end, head); ++unit) {
      hidden = forward_unit(unit, head, hidden, batch, pass);
    }
    if (part + 1 == placement.parts()) {
      sharded_.before_forward(head);
      loss = model_.loss(hidden, batch, pass).item<double>();
      sharded_.after_forward(head);
    } else if (const int64_t next = placement.stage_of(part + 1); next != own) {
      transfers_.send(hidden, next, {.what = "activation", .phase = "evaluation"});
      transfers_.advance();
    }
  }
  return loss;
}

}  // namespace terrace::train
