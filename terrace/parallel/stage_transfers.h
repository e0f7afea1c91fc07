// Sends and receives hidden states and their gradients between stages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/models/model.h"

namespace terrace::parallel {

// Tensors from another stage, whose receives are posted before they are taken.
class Incoming {
 public:
  Incoming() = default;
  explicit Incoming(models::Tensors tensors) : tensors_(std::move(tensors)) {}

  bool expected() const { return !tensors_.empty(); }
  // Waits for the tensors and returns them; afterwards nothing is expected.
  models::Tensors take();

 private:
  friend class StageTransfers;

  models::Tensors tensors_;  // before works_: they outlive them
  std::vector<comm::Work> works_;
};

class StageTransfers {
 public:
  // `group` has the stages in order.
  explicit StageTransfers(comm::Comm& group) : group_(group) {}

  // Returns at once and keeps the tensors until their sends are complete. Each tensor is one message; empty tensors are
  // skipped.
  void send(const models::Tensors& tensors, int64_t stage, const comm::Label& label);
  // Takes memory for tensors of another stage.
  static Incoming expect(const std::vector<models::TensorShape>& shapes, const at::Device& device);
  // Posts the receives of expected tensors, once, and returns at once.
  void post(Incoming& incoming, int64_t stage, const comm::Label& label);
  // Frees the tensors whose sends are complete.
  void advance();
  // Waits until all sends are complete.
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
