// Collectives on tensors, in the type that travels.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/comm/comm.h"

namespace terrace::parallel {

comm::Type comm_type(at::ScalarType type);

// A collective under way, with the buffers that it reads and writes.
class Transfer {
 public:
  Transfer() = default;  // complete

  // Waits, and rounds back what travelled in another type.
  void finish();

  // In place.
  static Transfer all_reduce(comm::Comm& group, const at::Tensor& data, at::ScalarType wire, const comm::Label& label);
  // to [n] gets this member's block of the sum of from [size() n]; it may be that block of `from`.
  static Transfer reduce_scatter(comm::Comm& group, const at::Tensor& from, const at::Tensor& to, at::ScalarType wire,
                                 const comm::Label& label);
  // whole [size() n] gets the blocks own [n] of all members; `own` may be its block there. Where the wire has another
  // type, all blocks are rounded, the own one too, so that members agree.
  static Transfer all_gather(comm::Comm& group, const at::Tensor& own, const at::Tensor& whole, at::ScalarType wire,
                             const comm::Label& label);
  // Block i of from [size() n] goes to block member() of member i's `to`, which has the same size and type.
  static Transfer all_to_all(comm::Comm& group, const at::Tensor& from, const at::Tensor& to, const comm::Label& label);

 private:
  // Of what is sent and what arrives, before the call.
  Transfer(const at::Tensor& from, const at::Tensor& to, at::ScalarType wire);

  comm::Owner owner() const;

  at::Tensor sent_, received_;  // before work_: they outlive it
  at::Tensor target_;           // gets `received_` rounded; undefined: it arrived in place
  comm::Work work_;
};

}  // namespace terrace::parallel
