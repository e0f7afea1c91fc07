// Formats the instructions of a step for messages, pictures and tests.
#include <fmt/format.h>

#include "terrace/schedule/step/step.h"

namespace terrace::schedule {

using StepKind = StepInstruction::Kind;

const char* to_string(Movement movement) {
  switch (movement) {
    case Movement::gather_weights:
      return "gather weights";
    case Movement::reduce:
      return "reduce gradients";
    case Movement::reduce_across:
      return "reduce gradients across";
    case Movement::reduce_replicas:
      return "all-reduce gradients";
    case Movement::gather_gradients:
      return "gather gradients";
    case Movement::publish:
      return "gather updated weights";
  }
  return "unknown movement";
}

const char* group_of(Movement movement, Hop hop) {
  const auto named = [hop](const char* whole, const char* node, const char* rails) {
    return hop == Hop::whole ? whole : hop == Hop::node ? node : rails;
  };
  switch (movement) {
    case Movement::gather_weights:
      return named("shard_weights", "shard_weights_node", "shard_weights_rails");
    case Movement::reduce:
      return named("shard_gradients", "shard_gradients_node", "shard_gradients_rails");
    case Movement::reduce_across:
      return named("shard_optimizer", "shard_optimizer_node", "shard_optimizer_rails");
    case Movement::reduce_replicas:
    case Movement::gather_gradients:
      return "replicas";
    case Movement::publish:
      return named("update", "update_node", "update_rails");
  }
  return "";
}

const char* drawn_as(StepInstruction::Kind kind) {
  switch (kind) {
    case StepKind::forward:
      return "forward";
    case StepKind::loss:
      return "loss";
    case StepKind::backward:
      return "backward";
    case StepKind::input_gradient:
      return "input gradient";
    case StepKind::weight_gradient:
      return "weight gradient";
    case StepKind::send_activation:
    case StepKind::send_gradient:
    case StepKind::begin_movement:
      return "transfer";
    case StepKind::receive_activation:
    case StepKind::receive_gradient:
    case StepKind::end_movement:
      return "wait";
    case StepKind::release:
    case StepKind::allocate_gradient:
      return "memory";
    case StepKind::finish_gradients:
    case StepKind::norm:
    case StepKind::update:
      return "update";
  }
  return "";
}

std::string to_string(const StepInstruction& one) {
  const std::string chunk = one.chunk <= 0 ? "" : fmt::format(".{}", one.chunk);
  const std::string batch = fmt::format("{}{}", one.micro_batch, chunk);
  switch (one.kind) {
    case StepKind::forward:
      return fmt::format("F{} segment {}", batch, one.segment);
    case StepKind::loss:
      return fmt::format("L{} segment {}", batch, one.segment);
    case StepKind::backward:
      return fmt::format("B{} segment {}", batch, one.segment);
    case StepKind::input_gradient:
      return fmt::format("I{} segment {}", batch, one.segment);
    case StepKind::weight_gradient:
      return fmt::format("W{} segment {}", batch, one.segment);
    case StepKind::send_activation:
      return fmt::format("send activation {} to {}", batch, one.peer);
    case StepKind::receive_activation:
      return fmt::format("receive activation {} from {}", batch, one.peer);
    case StepKind::send_gradient:
      return fmt::format("send gradient {} to {}", batch, one.peer);
    case StepKind::receive_gradient:
      return fmt::format("receive gradient {} from {}", batch, one.peer);
    case StepKind::begin_movement:
    case StepKind::end_movement:
      return fmt::format("{} {} of segment {}{}", one.kind == StepKind::begin_movement ? "begin" : "end",
                         to_string(one.movement), one.segment,
                         one.hop == Hop::whole  ? ""
                         : one.hop == Hop::node ? " inside nodes"
                                                : " between nodes");
    case StepKind::release:
      return fmt::format("release weights of segment {}", one.segment);
    case StepKind::allocate_gradient:
      return fmt::format("allocate gradient of segment {}", one.segment);
    case StepKind::finish_gradients:
      return "finish gradients";
    case StepKind::norm:
      return "norm";
    case StepKind::update:
      return "update";
  }
  return "unknown instruction";
}

}  // namespace terrace::schedule
