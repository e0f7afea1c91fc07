// Hidden states and their gradients on the way between stages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "terrace/comm/comm.h"

namespace terrace::parallel {

// A tensor that is on its way here.
class Incoming {
 public:
  Incoming() = default;
  Incoming(at::Tensor tensor, comm::Work work) : tensor_(std::move(tensor)), work_(std::move(work)) {}

  bool expected() const { return tensor_.defined(); }
  // Waits; afterwards nothing is expected.
  at::Tensor take();

 private:
  at::Tensor tensor_;  // before work_: it outlives it
  comm::Work work_;
};

class StageTransfers {
 public:
  // The group has the stages in order.
  explicit StageTransfers(comm::Comm& group) : group_(group) {}

  // Returns at once; the tensor is kept until it has left.
  void send(const at::Tensor& tensor, int64_t stage, const comm::Label& label);
  Incoming receive(const std::vector<int64_t>& sizes, const at::TensorOptions& options, int64_t stage,
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
