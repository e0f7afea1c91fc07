// Which tensors pass between two parts of the model, and which computations make and take them.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "terrace/schedule/instruction.h"
#include "terrace/schedule/placement.h"

namespace terrace::schedule {

// An activation on its way from part `lower` to part `lower` + 1, or its gradient on the way back.
struct Message {
  bool gradient;
  int64_t micro_batch;
  int64_t lower;

  int64_t from(const Placement& placement) const { return placement.stage_of(gradient ? lower + 1 : lower); }
  int64_t to(const Placement& placement) const { return placement.stage_of(gradient ? lower : lower + 1); }
  auto operator<=>(const Message&) const = default;
};

// What a computation of the stage takes from, or makes for, another part; nothing at the model's ends and for weight
// gradients.
std::optional<Message> taken(const Instruction& computation, const Placement& placement, int64_t stage);
std::optional<Message> made(const Instruction& computation, const Placement& placement, int64_t stage);

// What a send or receive of the stage carries; nothing where there is no part on the other side.
std::optional<Message> carried(const Instruction& transfer, const Placement& placement, int64_t stage);

// The same where it passes between two stages, and nothing where it stays on one.
std::optional<Message> between_stages(std::optional<Message> message, const Placement& placement);

}  // namespace terrace::schedule
