// Sends and receives of tensors.
#include "terrace/parallel/stage_transfers.h"

#include <ATen/ops/empty.h>

#include <memory>

#include "terrace/ops/record.h"
#include "terrace/parallel/transfer.h"

namespace terrace::parallel {

at::Tensor Incoming::take() {
  // Of the phase that takes it this is no work, but where the stage idles.
  const ops::PhaseRecord record("receive");
  work_.wait();
  return std::exchange(tensor_, {});
}

void StageTransfers::send(const at::Tensor& tensor, int64_t stage, const comm::Label& label) {
  const at::Tensor dense = tensor.detach().contiguous();
  outgoing_.push_back({dense, group_.send(dense.const_data_ptr(), dense.numel(), comm_type(dense.scalar_type()), stage,
                                          label, std::make_shared<const at::Tensor>(dense))});
}

Incoming StageTransfers::receive(const std::vector<int64_t>& sizes, const at::TensorOptions& options, int64_t stage,
                                 const comm::Label& label) {
  const at::Tensor tensor = at::empty(sizes, options.requires_grad(false));
  return {tensor, group_.receive(tensor.mutable_data_ptr(), tensor.numel(), comm_type(tensor.scalar_type()), stage,
                                 label, std::make_shared<const at::Tensor>(tensor))};
}

void StageTransfers::advance() {
  while (!outgoing_.empty() && outgoing_.front().work.done()) {
    outgoing_.front().work.wait();
    outgoing_.pop_front();
  }
}

void StageTransfers::finish() {
  for (Outgoing& one : outgoing_) one.work.wait();
  outgoing_.clear();
}

}  // namespace terrace::parallel
