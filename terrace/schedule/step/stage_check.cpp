// Decides whether a stage may execute its next instruction.
#include "terrace/schedule/step/stage_check.h"

#include "terrace/base/error.h"

namespace terrace::schedule {
namespace {

using Kind = Instruction::Kind;

// Why the instruction cannot come after `next` instructions of its kind; "" if it can.
std::string in_order(const Instruction& instruction, int64_t next) {
  if (instruction.micro_batch < next) return "it has been done already";
  if (instruction.micro_batch == next) return "";
  Instruction missing = instruction;
  missing.micro_batch = next;
  return fmt::format("out of order: {} has not been done", to_string(missing));
}

std::string has_not_been_done(Kind kind, int64_t micro_batch, int64_t chunk, int64_t peer = -1) {
  return to_string({kind, micro_batch, chunk, peer}) + " has not been done";
}

}  // namespace

StageCheck::StageCheck(const Placement& placement, int64_t stage, int64_t micro_batches, const Live& bound)
    : placement_(placement),
      stage_(stage),
      micro_batches_(micro_batches),
      bound_(bound),
      done_(static_cast<size_t>(placement.chunks)) {}

std::string StageCheck::next(const Instruction& instruction) {
  if (stepped_) return "it comes after the optimizer step";
  if (instruction.kind == Kind::optimizer_step) return step(instruction);
  if (instruction.micro_batch < 0 || instruction.micro_batch >= micro_batches_) {
    return fmt::format("there are {} micro-batches", micro_batches_);
  }
  if (instruction.chunk < 0 || instruction.chunk >= placement_.chunks) {
    return fmt::format("there are {} chunks a stage", placement_.chunks);
  }
  if (is_send(instruction.kind)) return send(instruction);
  if (is_receive(instruction.kind)) return receive(instruction);
  return computation(instruction);
}

std::string StageCheck::computation(const Instruction& instruction) {
  const auto& [kind, micro_batch, chunk, peer] = instruction;
  if (peer != -1) return fmt::format("it is not a transfer, but names stage {}", peer);
  Done& done = this->done(chunk);
  const bool gradient_of_input = kind == Kind::input_gradient || kind == Kind::backward;
  const bool gradient_of_weights = kind == Kind::weight_gradient || kind == Kind::backward;
  std::string problem;
  if (kind == Kind::forward) problem = in_order(instruction, done.forwards);
  if (gradient_of_input) {
    problem = in_order(instruction, done.input_gradients);
    if (problem.empty() && micro_batch >= done.forwards) problem = has_not_been_done(Kind::forward, micro_batch, chunk);
  }
  if (problem.empty() && gradient_of_weights) {
    problem = in_order({Kind::weight_gradient, micro_batch, chunk}, done.weight_gradients);
    if (problem.empty() && kind != Kind::backward && micro_batch >= done.input_gradients) {
      problem = has_not_been_done(Kind::input_gradient, micro_batch, chunk);
    }
  }
  if (problem.empty()) problem = take(instruction);
  if (!problem.empty()) return problem;
  if (kind == Kind::forward) {
    ++done.forwards;
    ++live_.activations;
  }
  if (gradient_of_input) {
    ++done.input_gradients;
    --live_.activations;
    ++live_.weight_inputs;
  }
  if (gradient_of_weights) {
    ++done.weight_gradients;
    --live_.weight_inputs;
  }
  return within_bound();
}

// Why the tensor that the computation takes is missing; "" if it was made on this stage or its receive is posted.
std::string StageCheck::take(const Instruction& instruction) {
  const auto message = taken(instruction, placement_, stage_);
  if (!message) return "";
  if (message->from(placement_) != stage_) {
    return posted_.contains(*message) ? "" : "its tensor has not been received";
  }
  if (is_made(*message)) return "";
  const int64_t maker = placement_.chunk_of(message->gradient ? message->lower + 1 : message->lower);
  return has_not_been_done(instruction.kind, message->micro_batch, maker);
}

bool StageCheck::is_made(const Message& message) const {
  const int64_t virtual_stage = message.gradient ? message.lower + 1 : message.lower;
  const Done& done = done_[static_cast<size_t>(placement_.chunk_of(virtual_stage))];
  return message.micro_batch < (message.gradient ? done.input_gradients : done.forwards);
}

std::string StageCheck::send(const Instruction& instruction) {
  const auto message = between_stages(carried(instruction, placement_, stage_), placement_);
  if (!message) return "no other stage takes the tensor";
  if (instruction.peer != message->to(placement_))
    return fmt::format("stage {} takes the tensor", message->to(placement_));
  if (!is_made(*message)) return "the tensor has not been made";
  return sent_.insert(*message).second ? "" : "the tensor was sent before";
}

std::string StageCheck::receive(const Instruction& instruction) {
  const auto message = between_stages(carried(instruction, placement_, stage_), placement_);
  if (!message) return "no other stage makes the tensor";
  if (instruction.peer != message->from(placement_))
    return fmt::format("stage {} makes the tensor", message->from(placement_));
  return posted_.insert(*message).second ? "" : "its receive was posted before";
}

std::string StageCheck::step(const Instruction& instruction) {
  if (instruction != Instruction{Kind::optimizer_step}) return "the optimizer step has no micro-batch, chunk or peer";
  for (int64_t chunk = 0; chunk < placement_.chunks; ++chunk) {
    const Done& done = this->done(chunk);
    if (done.forwards < micro_batches_) return has_not_been_done(Kind::forward, done.forwards, chunk);
    if (done.weight_gradients < micro_batches_) {
      const bool deferred = done.input_gradients > done.weight_gradients;
      return has_not_been_done(deferred ? Kind::weight_gradient : Kind::backward, done.weight_gradients, chunk);
    }
    for (int64_t i = 0; i < micro_batches_; ++i) {
      for (const Kind kind : {Kind::forward, Kind::backward}) {
        const auto message = between_stages(made({kind, i, chunk}, placement_, stage_), placement_);
        if (message && !sent_.contains(*message)) {
          const Kind send = message->gradient ? Kind::send_gradient : Kind::send_activation;
          return has_not_been_done(send, i, chunk, message->to(placement_));
        }
      }
    }
  }
  stepped_ = true;
  return "";
}

std::string StageCheck::within_bound() const {
  const auto exceeded = [](int64_t is, int64_t bound, const char* what) {
    return is > bound ? fmt::format("{} {} are alive, at most {} may be", is, what, bound) : "";
  };
  std::string problem = exceeded(live_.activations, bound_.activations, "activations");
  if (problem.empty()) problem = exceeded(live_.weight_inputs, bound_.weight_inputs, "inputs of weight gradients");
  if (problem.empty()) {
    problem = exceeded(live_.activations + live_.weight_inputs, bound_.together,
                       "activations and inputs of weight gradients");
  }
  return problem;
}

}  // namespace terrace::schedule
