// Hidden states and their gradients on the way between stages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/models/model.h"

namespace terrace::parallel {

// Tensors that are on their way here.
class Incoming {
 public:
  Incoming() = default;
  Incoming(models::Tensors tensors, std::vector<comm::Work> works)
      : tensors_(std::move(tensors)), works_(std::move(works)) {}

  bool expected() const { return !tensors_.empty(); }
  // Waits; afterwards nothing is expected.
  models::Tensors take();

 private:
  models::Tensors tensors_;  // before works_: they outlive them
  std::vector<comm::Work> works_;
};

class StageTransfers {
 public:
  // The group has the stages in order.
  explicit StageTransfers(comm::Comm& group) : group_(group) {}

  // Returns at once; the tensors are kept until they have left. Each is a message of its own, empty ones are none.
  void send(const models::Tensors& tensors, int64_t stage, const comm::Label& label);
  Incoming receive(const std::vector<models::TensorShape>& shapes, const at::Device& device, int64_t stage,
                   const comm::Label& label);
  // Lets go what has left.
  void advance();
  // Waits until everything has left.
  void finish();

 private:
  struct Outgoing {
    at::Tensor tensor;
    comm::Work work;
  };
  comm::Comm& group_;
  std::deque<Outgoing> outgoing_;
};

}  // namespace terrace::parallel
