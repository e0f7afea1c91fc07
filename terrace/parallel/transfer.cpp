// Converts element types before and after the calls.
#include "terrace/parallel/transfer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <memory>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::parallel {

comm::Type comm_type(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return comm::Type::fp64;
    case at::kFloat:
      return comm::Type::fp32;
    case at::kBFloat16:
      return comm::Type::bf16;
    case at::kHalf:
      return comm::Type::fp16;
    case at::kLong:
      return comm::Type::int64;
    case at::kInt:
      return comm::Type::int32;
    case at::kByte:
      return comm::Type::uint8;
    default:
      TERRACE_CHECK(false, "tensors of {} cannot be sent", c10::toString(type));
  }
}

// Keeps the tensors alive for as long as a backend needs their memory.
comm::Owner Transfer::owner() const {
  return std::make_shared<const std::pair<at::Tensor, at::Tensor>>(sent_, received_);
}

Transfer::Transfer(const at::Tensor& from, const at::Tensor& to, at::ScalarType wire) : sent_(from.to(wire)) {
  const bool in_place = wire == to.scalar_type();
  received_ = in_place ? to : at::empty(to.sizes(), to.options().dtype(wire));
  if (!in_place) target_ = to;
}

void Transfer::finish() {
  work_.wait();
  const at::NoGradGuard no_grad;
  if (target_.defined()) target_.copy_(received_);
  sent_.reset();
  received_.reset();
  target_.reset();
}

Transfer Transfer::all_reduce(comm::Comm& group, const at::Tensor& data, at::ScalarType wire,
                              const comm::Label& label) {
  if (group.size() == 1) return {};
  Transfer transfer;
  transfer.received_ = data.to(wire);
  if (wire != data.scalar_type()) transfer.target_ = data;
  transfer.work_ =
      group.all_reduce(transfer.received_.mutable_data_ptr(), data.numel(), comm_type(wire), label, transfer.owner());
  return transfer;
}

Transfer Transfer::reduce_scatter(comm::Comm& group, const at::Tensor& from, const at::Tensor& to, at::ScalarType wire,
                                  const comm::Label& label) {
  Transfer transfer(from, to, wire);
  transfer.work_ = group.reduce_scatter(transfer.sent_.const_data_ptr(), transfer.received_.mutable_data_ptr(),
                                        to.numel(), comm_type(wire), label, transfer.owner());
  return transfer;
}

Transfer Transfer::all_gather(comm::Comm& group, const at::Tensor& own, const at::Tensor& whole, at::ScalarType wire,
                              const comm::Label& label) {
  Transfer transfer(own, whole, wire);
  transfer.work_ = group.all_gather(transfer.sent_.const_data_ptr(), transfer.received_.mutable_data_ptr(), own.numel(),
                                    comm_type(wire), label, transfer.owner());
  return transfer;
}

Transfer Transfer::all_to_all(comm::Comm& group, const at::Tensor& from, const at::Tensor& to,
                              const comm::Label& label) {
  Transfer transfer(from, to, to.scalar_type());
  transfer.work_ = group.all_to_all(transfer.sent_.const_data_ptr(), transfer.received_.mutable_data_ptr(),
                                    to.numel() / group.size(), comm_type(to.scalar_type()), label, transfer.owner());
  return transfer;
}

}  // namespace terrace::parallel
