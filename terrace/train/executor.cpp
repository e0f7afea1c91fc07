// Executes each kind of instruction; keeps what a segment saves for a micro-batch from its forward to its backward.
#include "terrace/train/executor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <memory>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/comm/nccl/nccl.h"
#include "terrace/ops/recompute.h"
#include "terrace/ops/weight.h"
#include "terrace/profile/record.h"
#include "terrace/train/device.h"

namespace terrace::train {

using schedule::StepInstruction;
using Kind = StepInstruction::Kind;

// The state of one micro-batch in one chunk.
struct Executor::MicroBatchState {
  // The state of one segment. Its inputs are leaves of its graph, so that each segment has a backward of its own.
  struct Segment {
    models::Tensors input;   // none in the model's first segment
    models::Tensors output;  // with its graph, until the backward
    ops::WeightGradientQueue deferred = {};
  };
  std::vector<Segment> segments;  // of the chunk
  models::Tensors hidden;  // what the next segment takes: the input of the chunk, then the output of each segment
  // The input of the next backward: the gradient with respect to the floating-point outputs of its segment. The first
  // one comes from the next virtual stage or the loss, every other one from the segment after.
  models::Tensors gradient;
  parallel::Incoming activation, output_gradient;
  bool split = false;  // weight gradients have instructions of their own
};

struct Executor::Step {
  const std::vector<models::Batch>& micro_batches;
  models::Pass pass;
  const StepEnd& end;
  int64_t chunks;
  std::vector<MicroBatchState> states;       // micro-batch by micro-batch
  std::vector<models::Tensors> losses = {};  // of each micro-batch
  models::Outputs* outputs = nullptr;        // computed in place of the loss
  bool updates = false;
  // The step's list with its receives where they are posted, and how much of it is done. Where it is empty, they are
  // posted where the list that is executed has them.
  schedule::StepInstructions careful = {};
  size_t careful_done = 0;

  MicroBatchState& state_of(int64_t micro_batch, int64_t chunk) {
    return states[static_cast<size_t>(micro_batch * chunks + chunk)];
  }
  MicroBatchState& state_of(const StepInstruction& i) { return state_of(i.micro_batch, i.chunk); }
  const models::Batch& batch(int64_t micro_batch) const { return micro_batches[static_cast<size_t>(micro_batch)]; }

  // The sums of the losses over the micro-batches of this rank, without counts.
  observe::TermSums summed_losses(const std::vector<models::LossTerm>& terms) const {
    observe::TermSums sums = models::no_sums(terms);
    for (const models::Tensors& micro_batch : losses) models::add(terms, sums_of(micro_batch), sums);
    return sums;
  }

  // The sums of the losses of one micro-batch.
  static observe::TermSums sums_of(const models::Tensors& losses) {
    observe::TermSums sums(losses.size());
    for (size_t term = 0; term < losses.size(); ++term) sums[term].values = numbers_of(losses[term]);
    return sums;
  }

  static std::vector<double> numbers_of(const at::Tensor& tensor) {
    if (tensor.numel() == 1) return {tensor.item<double>()};
    const at::Tensor numbers = tensor.to(at::kCPU, at::kDouble).contiguous();
    return {numbers.const_data_ptr<double>(), numbers.const_data_ptr<double>() + numbers.numel()};
  }
};

namespace {

comm::Label label_of(const StepInstruction& instruction, const char* what, bool training) {
  return {.what = what,
          .segment = -1,
          .phase = training ? "" : "evaluation",
          .micro_batch = training ? instruction.micro_batch : -1};
}

models::Tensors detached(const models::Tensors& tensors) {
  models::Tensors all;
  for (const at::Tensor& tensor : tensors) all.push_back(tensor.detach());
  return all;
}

// The gradients of the floating-point inputs of a graph whose backward is done. An input that the outputs do not depend
// on gets a gradient of zeros, since the stage before expects a gradient for each.
models::Tensors gradients_of(const models::Tensors& input) {
  models::Tensors gradients;
  for (const at::Tensor& tensor : input) {
    if (!tensor.is_floating_point()) continue;
    gradients.push_back(tensor.grad().defined() ? tensor.grad() : at::zeros_like(tensor));
  }
  return gradients;
}

// `gradients` are those with respect to the floating-point outputs; if empty, the outputs are scalars with gradient 1.
// `leaves` are those whose gradients are computed; if empty, all.
void backward_of(const models::Tensors& outputs, const models::Tensors& gradients, const models::Tensors& leaves = {}) {
  models::Tensors roots, upstream;
  size_t next = 0;  // index into `gradients`
  for (const at::Tensor& output : outputs) {
    if (!output.is_floating_point()) continue;
    const at::Tensor gradient = gradients.empty() ? at::Tensor() : gradients.at(next++);
    if (!output.requires_grad()) continue;
    roots.push_back(output);
    if (gradient.defined()) upstream.push_back(gradient);
  }
  if (!roots.empty()) torch::autograd::backward(roots, upstream, std::nullopt, /*create_graph=*/false, leaves);
}

}  // namespace

Executor::Executor(models::Model& model, parallel::CutModel& cut, schedule::SegmentRecompute recompute)
    : model_(model),
      cut_(cut),
      sharded_(cut.sharded),
      stage_(cut.stage),
      recompute_(std::move(recompute)),
      transfers_(cut.stage.group()) {}

Executor::~Executor() = default;

std::vector<models::TensorShape> Executor::output_shapes(int64_t segment, const models::Batch& batch) const {
  std::vector<models::TensorShape> shapes = model_.output_shapes(stage_.segment(segment).units.end - 1, batch);
  for (models::TensorShape& shape : shapes) {
    if (shape.sequence_dim >= 0) shape.sizes.at(static_cast<size_t>(shape.sequence_dim)) /= cut_.sequence_ranks();
  }
  return shapes;
}

// Waits for tensors of another stage.
models::Tensors Executor::taken(parallel::Incoming& incoming) {
  models::Tensors tensors = incoming.take();
  if (recorder_ != nullptr) recorder_->waited();
  if (times_ != nullptr) times_->waited();
  return tensors;
}

// The inputs of the segment, as leaves of its own graph; empty in the model's first segment.
models::Tensors Executor::input_of(Step& step, const StepInstruction& instruction) {
  MicroBatchState& state = step.state_of(instruction);
  if (state.activation.expected()) state.hidden = taken(state.activation);
  models::Tensors input = std::exchange(state.hidden, {});
  if (!step.pass.training) return input;
  for (at::Tensor& tensor : input) {
    tensor = tensor.detach();
    if (tensor.is_floating_point()) tensor.requires_grad_(true);
  }
  return input;
}

void Executor::forward(Step& step, const StepInstruction& instruction) {
  const profile::PhaseRecord record("forward");
  const int64_t micro_batch = instruction.micro_batch, chunk = instruction.chunk, segment = instruction.segment;
  MicroBatchState& state = step.state_of(instruction);
  const models::Batch& batch = step.batch(micro_batch);
  const int64_t begin = stage_.segments(chunk).begin;
  if (state.segments.empty()) state.segments.resize(static_cast<size_t>(stage_.segments(chunk).end - begin));
  MicroBatchState::Segment& own = state.segments[static_cast<size_t>(segment - begin)];
  models::Pass pass = step.pass;
  pass.context = cut_.context.cut_of(batch);
  pass.experts = cut_.experts.ranks();
  if (state.split) pass.deferred = &own.deferred;
  const config::Recompute recompute = recompute_[static_cast<size_t>(segment)];
  pass.recompute_attention = recompute == config::Recompute::selective;
  own.input = input_of(step, instruction);
  const schedule::NumberRange units = stage_.segment(segment).units;
  const bool recomputes = pass.training && recompute == config::Recompute::full;
  if (recomputes) pass.kept = std::make_shared<models::KeptChoices>();
  // All copies of the function share what says whether it was called.
  const auto compute = [this, units, batch, pass,
                        called = std::make_shared<bool>(false)](const models::Tensors& input) {
    models::Pass own_pass = pass;
    own_pass.repeated = std::exchange(*called, true);
    return model_.forward(units.begin, units.end, input, batch, own_pass);
  };
  own.output = recomputes ? ops::recompute(compute, own.input) : compute(own.input);
  if (faults_ != nullptr && pass.training && micro_batch == 0) {
    faults_->flip_activation(segment, own.output.front().detach());
  }
  if (digests_ != nullptr && pass.training && micro_batch == 0) digests_->note_forward(segment, own.output);
  state.hidden = detached(own.output);
  if (!pass.training) own = {};
  if (segment + 1 < stage_.segments(chunk).end) return;
  if (const int64_t next = stage_.chunk_here_after(chunk); next >= 0) {
    step.state_of(micro_batch, next).hidden = std::exchange(state.hidden, {});
  }
}

// The forward of the model's last segment already adds to gradients, so its backward follows immediately.
void Executor::loss(Step& step, const StepInstruction& instruction) {
  const profile::PhaseRecord record("forward");
  MicroBatchState& state = step.state_of(instruction);
  const models::Tensors input = input_of(step, instruction);
  const models::Batch& batch = step.batch(instruction.micro_batch);
  models::Pass pass = step.pass;
  pass.context = cut_.context.cut_of(batch);
  pass.experts = cut_.experts.ranks();
  if (step.outputs != nullptr) {
    *step.outputs = model_.outputs(stage_.segment(instruction.segment).units.begin, input, batch, pass);
    return;
  }
  const int64_t begin = stage_.segment(instruction.segment).units.begin;
  const models::Tensors losses = model_.loss(begin, input, batch, pass);
  if (pass.training) {
    backward_of(losses, {}, models::leaves_of_loss(model_, begin, input));
    complete_gradient(instruction.segment, instruction.micro_batch);
    for (const int64_t copy : stage_.own().copies) complete_gradient(copy, instruction.micro_batch);
    state.gradient = gradients_of(input);
    if (digests_ != nullptr && instruction.micro_batch == 0) {
      digests_->note_loss(losses);
      digests_->note_backward(instruction.segment, state.gradient);
    }
    if (instruction.segment == stage_.segments(instruction.chunk).begin)
      pass_gradient_to_previous_chunk(step, instruction);
  }
  // The values are read at the end of the step, since reading them on a GPU waits for the device.
  step.losses.push_back(detached(losses));
}

// Computes the gradients of the segment's input and, unless they are deferred, of its weights.
void Executor::backward(Step& step, const StepInstruction& instruction) {
  const profile::PhaseRecord record("backward");
  MicroBatchState& state = step.state_of(instruction);
  if (state.output_gradient.expected()) state.gradient = taken(state.output_gradient);
  const int64_t begin = stage_.segments(instruction.chunk).begin;
  MicroBatchState::Segment& own = state.segments[static_cast<size_t>(instruction.segment - begin)];
  backward_of(std::exchange(own.output, {}), std::exchange(state.gradient, {}));
  state.gradient = gradients_of(std::exchange(own.input, {}));
  if (digests_ != nullptr && instruction.micro_batch == 0) digests_->note_backward(instruction.segment, state.gradient);
  if (instruction.kind == Kind::backward) complete_gradient(instruction.segment, instruction.micro_batch);
  if (instruction.segment == begin) pass_gradient_to_previous_chunk(step, instruction);
}

// Passes the gradient of the chunk's input to the previous virtual stage, if that is a chunk of this stage.
void Executor::pass_gradient_to_previous_chunk(Step& step, const StepInstruction& instruction) {
  const int64_t below = stage_.chunk_here_before(instruction.chunk);
  if (below >= 0)
    step.state_of(instruction.micro_batch, below).gradient = std::exchange(step.state_of(instruction).gradient, {});
}

void Executor::weight_gradient(Step& step, const StepInstruction& instruction) {
  const profile::PhaseRecord record("weight gradient");
  const int64_t begin = stage_.segments(instruction.chunk).begin;
  MicroBatchState& state = step.state_of(instruction);
  state.segments[static_cast<size_t>(instruction.segment - begin)].deferred.run();
  complete_gradient(instruction.segment, instruction.micro_batch);
}

// Called after the last computation that adds to the gradient of the segment for the micro-batch.
void Executor::complete_gradient(int64_t segment, int64_t micro_batch) {
  sharded_.collect_gradient(segment);
  if (micro_batch > 0) return;
  const std::vector<nn::Parameter*> parameters = parallel::segment_parameters(model_, stage_.segment(segment));
  if (faults_ != nullptr) faults_->flip_gradients(parameters);
  if (digests_ != nullptr) digests_->note_gradients(segment, parameters);
  cut_.first_gradients.take(segment);
}

void Executor::send(Step& step, const StepInstruction& instruction) {
  const bool activation = instruction.kind == Kind::send_activation;
  MicroBatchState& state = step.state_of(instruction);
  transfers_.send(std::exchange(activation ? state.hidden : state.gradient, {}), instruction.peer,
                  label_of(instruction, activation ? "activation" : "gradient", step.pass.training));
}

void Executor::receive(Step& step, const StepInstruction& instruction) {
  const bool activation = instruction.kind == Kind::receive_activation;
  const schedule::NumberRange& segments = stage_.segments(instruction.chunk);
  std::vector<models::TensorShape> shapes =
      output_shapes((activation ? segments.begin : segments.end) - 1, step.batch(instruction.micro_batch));
  if (!activation) std::erase_if(shapes, [](const auto& shape) { return !at::isFloatingType(shape.type); });
  MicroBatchState& state = step.state_of(instruction);
  (activation ? state.activation : state.output_gradient) = parallel::StageTransfers::expect(shapes, model_.device());
  if (step.careful.empty()) post(step, instruction);
}

void Executor::post(Step& step, const StepInstruction& receive) {
  const bool activation = receive.kind == Kind::receive_activation;
  MicroBatchState& state = step.state_of(receive);
  transfers_.post(activation ? state.activation : state.output_gradient, receive.peer,
                  label_of(receive, activation ? "activation" : "gradient", step.pass.training));
}

// Posts the receives that the careful list has before an instruction that is no receive.
void Executor::post_what_comes_before(Step& step, const StepInstruction& instruction) {
  while (schedule::is_receive(step.careful.at(step.careful_done).kind)) post(step, step.careful[step.careful_done++]);
  TERRACE_CHECK(step.careful[step.careful_done] == instruction, "{} in place of {}",
                to_string(step.careful[step.careful_done]), to_string(instruction));
  ++step.careful_done;
}

bool Executor::posts_carefully(int64_t micro_batches) const {
  return comm::made_with_nccl() && stage_.placement().stages > 1 && settled_micro_batches_ != micro_batches;
}

void Executor::execute(Step& step, const StepInstruction& instruction) {
  transfers_.advance();
  if (!step.careful.empty() && !schedule::is_receive(instruction.kind)) post_what_comes_before(step, instruction);
  switch (instruction.kind) {
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
      if (instruction.movement == schedule::Movement::publish && schedule::is_first_hop(instruction) && !step.updates) {
        return;
      }
      return sharded_.begin(instruction);
    case Kind::end_movement: {
      const profile::PhaseRecord record("communication");
      return sharded_.end(instruction);
    }
    case Kind::release:
      return sharded_.release(instruction.segment);
    case Kind::allocate_gradient:
      return sharded_.allocate_gradient(instruction.segment);
    case Kind::finish_gradients: {
      const profile::PhaseRecord record("optimizer");
      transfers_.finish();
      return cut_.sum_shared_gradients();
    }
    case Kind::norm: {
      const profile::PhaseRecord record("optimizer");
      last_losses_ = step.losses;
      step.updates = step.end.norm(step.summed_losses(model_.losses()));
      return;
    }
    case Kind::update: {
      const profile::PhaseRecord record("optimizer");
      if (step.updates) step.end.update();
      return;
    }
  }
}

void Executor::run(const std::vector<models::Batch>& micro_batches, const models::Pass& pass, const StepEnd& end) {
  const auto num_micro_batches = static_cast<int64_t>(micro_batches.size());
  const schedule::StepInstructions& list = cut_.training_step(num_micro_batches);
  const int64_t chunks = stage_.placement().chunks;
  Step step{.micro_batches = micro_batches,
            .pass = pass,
            .end = end,
            .chunks = chunks,
            .states = std::vector<MicroBatchState>(micro_batches.size() * static_cast<size_t>(chunks))};
  step.pass.training = true;
  for (const StepInstruction& instruction : list) {
    if (instruction.kind == Kind::weight_gradient) step.state_of(instruction).split = true;
  }
  if (posts_carefully(num_micro_batches)) step.careful = cut_.careful_training_step(num_micro_batches);
  const int64_t calls = memory_calls(model_.device());
  sharded_.begin_step(pass.seed, pass.step);
  if (recorder_ != nullptr) recorder_->begin_step();
  if (times_ != nullptr) times_->skip();
  if (observer_ != nullptr) observer_->begin_step();
  for (const StepInstruction& instruction : list) {
    if (recorder_ != nullptr) recorder_->begin(instruction);
    if (observer_ != nullptr) observer_->begin(instruction);
    execute(step, instruction);
    if (observer_ != nullptr) observer_->end(instruction);
    if (recorder_ != nullptr) recorder_->end();
    if (times_ != nullptr) times_->mark(instruction);
  }
  if (times_ != nullptr) times_->end_step();
  if (observer_ != nullptr) observer_->end_step();
  settled_micro_batches_ = memory_calls(model_.device()) == calls ? num_micro_batches : 0;
}

std::vector<observe::TermSums> Executor::losses_of_micro_batches() const {
  std::vector<observe::TermSums> sums;
  for (const models::Tensors& losses : last_losses_) sums.push_back(Step::sums_of(losses));
  return sums;
}

void Executor::evaluate(Step& step) {
  const at::NoGradGuard no_grad;
  step.chunks = stage_.placement().chunks;
  step.states = std::vector<MicroBatchState>(static_cast<size_t>(step.chunks));
  for (const StepInstruction& instruction : cut_.evaluation()) execute(step, instruction);
}

observe::TermSums Executor::evaluate(const models::Batch& batch) {
  const std::vector<models::Batch> one = {batch};
  const StepEnd end;
  const models::Pass pass{.gradient_scales = std::vector<double>(model_.losses().size(), 1.0)};
  Step step{.micro_batches = one, .pass = pass, .end = end, .chunks = 0, .states = {}};
  evaluate(step);
  return step.summed_losses(model_.losses());
}

models::Outputs Executor::outputs(const models::Batch& batch) {
  const std::vector<models::Batch> one = {batch};
  const StepEnd end;
  models::Outputs outputs;
  Step step{.micro_batches = one, .pass = {}, .end = end, .chunks = 0, .states = {}, .outputs = &outputs};
  evaluate(step);
  return outputs;
}

}  // namespace terrace::train
