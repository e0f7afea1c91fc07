// Implements the transfers as sends and receives of the stages' communicator.
#include "terrace/parallel/stage_transfers.h"

#include <ATen/ops/empty.h>

#include <memory>

#include "terrace/parallel/transfer.h"
#include "terrace/profile/record.h"

namespace terrace::parallel {

models::Tensors Incoming::take() {
  // A phase of its own, since the stage idles here and the time does not belong to the computation that follows.
  const profile::PhaseRecord record("receive");
  for (comm::Work& work : works_) work.wait();
  works_.clear();
  return std::exchange(tensors_, {});
}

void StageTransfers::send(const models::Tensors& tensors, int64_t stage, const comm::Label& label) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const at::Tensor dense = tensor.detach().contiguous();
    outgoing_.push_back({dense, group_.send(dense.const_data_ptr(), dense.numel(), comm_type(dense.scalar_type()),
                                            stage, label, std::make_shared<const at::Tensor>(dense))});
  }
}

Incoming StageTransfers::expect(const std::vector<models::TensorShape>& shapes, const at::Device& device) {
  models::Tensors tensors;
  for (const models::TensorShape& shape : shapes) {
    tensors.push_back(at::empty(shape.sizes, at::TensorOptions().device(device).dtype(shape.type)));
  }
  return Incoming(std::move(tensors));
}

void StageTransfers::post(Incoming& incoming, int64_t stage, const comm::Label& label) {
  for (const at::Tensor& tensor : incoming.tensors_) {
    if (tensor.numel() == 0) continue;
    incoming.works_.push_back(group_.receive(tensor.mutable_data_ptr(), tensor.numel(), comm_type(tensor.scalar_type()),
                                             stage, label, std::make_shared<const at::Tensor>(tensor)));
  }
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
