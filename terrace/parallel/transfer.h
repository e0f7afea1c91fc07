// Calls of a communicator on tensors, with values transferred in a given element type.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/comm/comm.h"

namespace terrace::parallel {

comm::Type comm_type(at::ScalarType type);

// A collective under way, with the buffers that it reads and writes.
class Transfer {
 public:
  Transfer() = default;  // complete

  // Waits, and converts values that were transferred in another type.
  void finish();

  // Sums `data` in place.
  static Transfer all_reduce(comm::Comm& group, const at::Tensor& data, at::ScalarType wire, const comm::Label& label);
  // Reduces and scatters: `to` [n] gets this member's block of the sum of `from` [size() n]; `to` may be that block of
  // `from`.
  static Transfer reduce_scatter(comm::Comm& group, const at::Tensor& from, const at::Tensor& to, at::ScalarType wire,
                                 const comm::Label& label);
  // Gathers: `whole` [size() n] gets the blocks `own` [n] of all members; `own` may be its block of `whole`. With
  // another wire type all blocks are rounded, including the own one, so that all members have the same values.
  static Transfer all_gather(comm::Comm& group, const at::Tensor& own, const at::Tensor& whole, at::ScalarType wire,
                             const comm::Label& label);
  // Block i of from [size() n] goes to block member() of member i's `to`, which has the same size and type.
  static Transfer all_to_all(comm::Comm& group, const at::Tensor& from, const at::Tensor& to, const comm::Label& label);

 private:
  // Prepares the buffers of a call that sends `from` and receives `to`.
  Transfer(const at::Tensor& from, const at::Tensor& to, at::ScalarType wire);

  comm::Owner owner() const;

  at::Tensor sent_, received_;  // before work_, which they outlive
  at::Tensor target_;           // gets the converted values of `received_`; undefined: received in place
  comm::Work work_;
};

}  // namespace terrace::parallel
