// Walks the list of a step; what a segment saves for a micro-batch lives from its forward to its backward.
#include "terrace/train/executor.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "terrace/base/error.h"
#include "terrace/ops/recompute.h"
#include "terrace/ops/record.h"
#include "terrace/ops/weight.h"

namespace terrace::train {

using schedule::StepInstruction;
using Kind = StepInstruction::Kind;

// One micro-batch in one chunk.
struct Executor::Flight {
  // Of one segment. Its graph ends at its input, a leaf, so that each segment has a backward of its own.
  struct Segment {
    at::Tensor input;   // undefined in the model's first segment
    at::Tensor output;  // with its graph, until the backward
    ops::WeightGradientQueue deferred = {};
  };
  std::vector<Segment> segments;  // of the chunk
  at::Tensor hidden;  // that the next segment takes: the input of the chunk, then the output of each segment
  at::Tensor
      gradient;  // with respect to `hidden`, for the segment before: from the next part or the loss, then of each
  parallel::Incoming activation, output_gradient;
  bool split = false;  // there are weight_gradients
};

struct Executor::Step {
  const std::vector<models::Batch>& micro_batches;
  models::Pass pass;
  const StepEnd& end;
  int64_t chunks;
  std::vector<Flight> flights;  // micro-batch by micro-batch
  std::vector<at::Tensor> losses = {};
  bool updates = false;

  Flight& flight(int64_t micro_batch, int64_t chunk) {
    return flights[static_cast<size_t>(micro_batch * chunks + chunk)];
  }
  Flight& flight(const StepInstruction& i) { return flight(i.micro_batch, i.chunk); }
  const models::Batch& batch(int64_t micro_batch) const { return micro_batches[static_cast<size_t>(micro_batch)]; }

  double summed_loss() const {
    double sum = 0;
    for (const at::Tensor& loss : losses) sum += loss.item<double>();
    return sum;
  }
};

namespace {

comm::Label label_of(const StepInstruction& instruction, const char* what, bool training) {
  return {.what = what,
          .segment = -1,
          .phase = training ? "" : "evaluation",
          .micro_batch = training ? instruction.micro_batch : -1};
}

}  // namespace

Executor::Executor(models::Model& model, parallel::CutModel& cut, config::Recompute recompute)
    : model_(model),
      cut_(cut),
      sharded_(cut.sharded),
      stage_(cut.stage),
      recompute_(recompute),
      transfers_(cut.stage.group()) {}

Executor::~Executor() = default;

std::vector<int64_t> Executor::output_sizes(int64_t segment, const models::Batch& batch) const {
  std::vector<int64_t> sizes = model_.hidden_sizes(stage_.segment(segment).units.end - 1, batch);
  if (cut_.sequence_ranks() > 1) sizes.at(1) /= cut_.sequence_ranks();
  return sizes;
}

// What the segment takes: a leaf of its own graph, or undefined in the model's first segment.
at::Tensor Executor::input_of(Step& step, const StepInstruction& instruction) {
  Flight& flight = step.flight(instruction);
  if (flight.activation.expected()) flight.hidden = flight.activation.take();
  at::Tensor input = std::exchange(flight.hidden, {});
  if (input.defined() && step.pass.training) input = input.detach().requires_grad_(true);
  return input;
}

void Executor::forward(Step& step, const StepInstruction& instruction) {
  const ops::PhaseRecord record("forward");
  const int64_t micro_batch = instruction.micro_batch, chunk = instruction.chunk, segment = instruction.segment;
  Flight& flight = step.flight(instruction);
  const models::Batch& batch = step.batch(micro_batch);
  const int64_t begin = stage_.segments(chunk).begin;
  if (flight.segments.empty()) flight.segments.resize(static_cast<size_t>(stage_.segments(chunk).end - begin));
  Flight::Segment& own = flight.segments[static_cast<size_t>(segment - begin)];
  models::Pass pass = step.pass;
  if (flight.split) pass.deferred = &own.deferred;
  own.input = input_of(step, instruction);
  const auto& [units, layer, reads, has_parameters] = stage_.segment(segment);
  const auto compute = [this, units = units, batch, pass](const at::Tensor& x) {
    return model_.forward(units.begin, units.end, x, batch, pass);
  };
  const bool recomputes = layer >= 0 && pass.training && recompute_ == config::Recompute::full;
  own.output = recomputes ? ops::recompute(compute, own.input) : compute(own.input);
  flight.hidden = own.output.detach();
  if (!pass.training) own = {};
  if (segment + 1 < stage_.segments(chunk).end) return;
  if (const int64_t next = stage_.chunk_here_after(chunk); next >= 0) {
    step.flight(micro_batch, next).hidden = std::exchange(flight.hidden, {});
  }
}

// The model's last segment adds to gradients in its forward already, so its backward comes at once.
void Executor::loss(Step& step, const StepInstruction& instruction) {
  const ops::PhaseRecord record("forward");
  Flight& flight = step.flight(instruction);
  const at::Tensor hidden = input_of(step, instruction);
  const at::Tensor loss = model_.loss(stage_.segment(instruction.segment).units.begin, hidden,
                                      step.batch(instruction.micro_batch), step.pass);
  if (step.pass.training) {
    loss.backward();
    sharded_.collect_gradient(instruction.segment);
    for (const int64_t copy : stage_.own().copies) sharded_.collect_gradient(copy);
    if (hidden.defined()) flight.gradient = hidden.grad();
    if (instruction.segment == stage_.segments(instruction.chunk).begin) hand_down(step, instruction);
  }
  // Without its graph; its number is read when the step is done: on a GPU that waits for the device.
  step.losses.push_back(loss.detach());
}

// Gradients with respect to the input of the segment and, where they are not deferred, of its weights.
void Executor::backward(Step& step, const StepInstruction& instruction) {
  const ops::PhaseRecord record("backward");
  Flight& flight = step.flight(instruction);
  if (flight.output_gradient.expected()) flight.gradient = flight.output_gradient.take();
  const int64_t begin = stage_.segments(instruction.chunk).begin;
  Flight::Segment& own = flight.segments[static_cast<size_t>(instruction.segment - begin)];
  own.output.backward(std::exchange(flight.gradient, {}));
  own.output.reset();
  if (own.input.defined()) flight.gradient = own.input.grad();
  own.input.reset();
  if (instruction.kind == Kind::backward) sharded_.collect_gradient(instruction.segment);
  if (instruction.segment == begin) hand_down(step, instruction);
}

// The gradient of the chunk's input to the part of the model before it, where that is on this stage too.
void Executor::hand_down(Step& step, const StepInstruction& instruction) {
  const int64_t below = stage_.chunk_here_before(instruction.chunk);
  if (below >= 0)
    step.flight(instruction.micro_batch, below).gradient = std::exchange(step.flight(instruction).gradient, {});
}

void Executor::weight_gradient(Step& step, const StepInstruction& instruction) {
  const ops::PhaseRecord record("weight gradient");
  const int64_t begin = stage_.segments(instruction.chunk).begin;
  Flight& flight = step.flight(instruction);
  flight.segments[static_cast<size_t>(instruction.segment - begin)].deferred.run();
  sharded_.collect_gradient(instruction.segment);
}

void Executor::send(Step& step, const StepInstruction& instruction) {
  const bool activation = instruction.kind == Kind::send_activation;
  Flight& flight = step.flight(instruction);
  transfers_.send(std::exchange(activation ? flight.hidden : flight.gradient, {}), instruction.peer,
                  label_of(instruction, activation ? "activation" : "gradient", step.pass.training));
}

void Executor::receive(Step& step, const StepInstruction& instruction) {
  const bool activation = instruction.kind == Kind::receive_activation;
  const schedule::NumberRange& segments = stage_.segments(instruction.chunk);
  Flight& flight = step.flight(instruction);
  (activation ? flight.activation : flight.output_gradient) = transfers_.receive(
      output_sizes((activation ? segments.begin : segments.end) - 1, step.batch(instruction.micro_batch)),
      model_.hidden_options(), instruction.peer,
      label_of(instruction, activation ? "activation" : "gradient", step.pass.training));
}

void Executor::execute(Step& step, const StepInstruction& instruction) {
  const auto& [kind, micro_batch, chunk, segment, peer, movement, accumulates, for_backward] = instruction;
  transfers_.advance();
  switch (kind) {
    case Kind::forward:
      return forward(step, instruction);
    case Kind::loss:
      return loss(step, instruction);
    case Kind::backward:
    case Kind::input_gradient:
      return backward(step, instruction);
    case Kind::weight_gradient:
      return weight_gradient(step, instruction);
    case Kind::send_activation:
    case Kind::send_gradient:
      return send(step, instruction);
    case Kind::receive_activation:
    case Kind::receive_gradient:
      return receive(step, instruction);
    case Kind::begin_movement:
      if (movement == schedule::Movement::publish && !step.updates) return;
      return sharded_.begin(segment, movement, accumulates, for_backward ? "backward" : "forward");
    case Kind::end_movement: {
      const ops::PhaseRecord record("communication");
      return sharded_.end(segment, movement, accumulates);
    }
    case Kind::release:
      return sharded_.release(segment);
    case Kind::allocate_gradient:
      return sharded_.allocate_gradient(segment);
    case Kind::finish_gradients: {
      const ops::PhaseRecord record("optimizer");
      transfers_.finish();
      return cut_.sum_shared_gradients();
    }
    case Kind::norm: {
      const ops::PhaseRecord record("optimizer");
      step.updates = step.end.norm(step.summed_loss());
      return;
    }
    case Kind::update: {
      const ops::PhaseRecord record("optimizer");
      if (step.updates) step.end.update();
      return;
    }
  }
}

void Executor::run(const std::vector<models::Batch>& micro_batches, const models::Pass& pass, const StepEnd& end) {
  const schedule::StepInstructions& list = cut_.training_step(static_cast<int64_t>(micro_batches.size()));
  const int64_t chunks = stage_.placement().chunks;
  Step step{.micro_batches = micro_batches,
            .pass = pass,
            .end = end,
            .chunks = chunks,
            .flights = std::vector<Flight>(micro_batches.size() * static_cast<size_t>(chunks))};
  step.pass.training = true;
  step.pass.first_position = cut_.tensor.first_position(micro_batches.front().tokens.size(1));
  step.pass.recompute_attention = recompute_ == config::Recompute::selective;
  for (const StepInstruction& instruction : list) {
    if (instruction.kind == Kind::weight_gradient) step.flight(instruction).split = true;
  }
  sharded_.begin_step();
  for (const StepInstruction& instruction : list) execute(step, instruction);
}

double Executor::evaluate(const models::Batch& batch) {
  const at::NoGradGuard no_grad;
  const std::vector<models::Batch> one = {batch};
  const auto chunks = static_cast<size_t>(stage_.placement().chunks);
  const StepEnd end;
  Step step{.micro_batches = one,
            .pass = {},
            .end = end,
            .chunks = stage_.placement().chunks,
            .flights = std::vector<Flight>(chunks)};
  for (const StepInstruction& instruction : cut_.evaluation()) execute(step, instruction);
  return step.summed_loss();
}

}  // namespace terrace::train
