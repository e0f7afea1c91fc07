// A collective of sharded data parallelism in a wire format and along a route: how a schedule::Movement travels.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/parallel/route.h"
#include "terrace/parallel/transfer.h"
#include "terrace/parallel/wire_format.h"

namespace terrace::parallel {

// A collective under way: its first call has begun. What follows it, further calls among them, happens in finish(), so
// that of two hops only the first goes on beside other work. All ranks finish the collectives that share a group in the
// same order.
class PendingCollective {
 public:
  PendingCollective() = default;  // complete
  PendingCollective(Transfer first, std::vector<std::function<void()>> rest = {})
      : first_(std::move(first)), rest_(std::move(rest)) {}

  void finish();

 private:
  friend class Collective;

  Transfer first_;
  std::vector<std::function<void()>> rest_;  // in order
};

// The calls of comm::Comm with the same names, over all ranks of the route. One hop in a summable format is exactly one
// such call in the payload's type. In a format that is not summable,
// - a reduction is an all-to-all of the encoded parts; each rank decodes what it receives and sums it in fp32 in the
//   order of the members. Two hops encode the sums of the inner group again, in fp32.
// - a gather passes each owner's payload on as it is, and all ranks decode it at the end, the owner too, so that they
//   agree to the bit.
// Buffers are as for comm::Comm; the groups of the route outlive the calls.
class Collective {
 public:
  Collective(std::shared_ptr<const WireFormat> format, const Route& route);

  const WireFormat& format() const { return *format_; }
  const Route& route() const { return route_; }

  // In place. Nothing where the route has one member. Unless it is one call, a reduce-scatter and an all-gather, for
  // which the members must divide the elements.
  PendingCollective all_reduce(const at::Tensor& data, const comm::Label& label) const;
  // to [n] gets this rank's block of the sum of from [size n]; it may be that block of `from`.
  PendingCollective reduce_scatter(const at::Tensor& from, const at::Tensor& to, const comm::Label& label) const;
  // whole [size n] gets the blocks own [n] of all ranks; `own` may be its block there.
  PendingCollective all_gather(const at::Tensor& own, const at::Tensor& whole, const comm::Label& label) const;

 private:
  at::Tensor encode(const at::Tensor& values, int64_t parts) const;
  // A reduce-scatter over one group.
  PendingCollective reduce_scatter_over(comm::Comm& group, const at::Tensor& from, const at::Tensor& to,
                                        const comm::Label& label) const;

  std::shared_ptr<const WireFormat> format_;
  Route route_;
};

}  // namespace terrace::parallel
