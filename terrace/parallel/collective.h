// The collectives of sharded data parallelism: each combines a wire format and a route.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/parallel/error_feedback.h"
#include "terrace/parallel/route.h"
#include "terrace/parallel/transfer.h"
#include "terrace/parallel/wire_format.h"

namespace terrace::parallel {

// A collective of one or more calls, of which one is under way. All ranks begin and end the calls of a group in the
// same order.
class PendingCollective {
 public:
  PendingCollective() = default;  // complete
  // `after` runs when the call is complete, such as decoding.
  PendingCollective(Transfer call, std::function<void()> after = {});

  // Waits for the call under way.
  void end_call();
  // Begins the next call after that; nothing if there is none.
  void begin_call();
  // Ends and begins calls until the collective is complete.
  void finish();

 private:
  friend class Collective;

  Transfer call_;
  std::function<void()> after_;
  std::vector<std::function<PendingCollective()>> next_;  // in order
};

// The formats of the calls over the inner and the outer group of a route; with one group, that of the inner. They may
// differ where the inner one is summable.
struct HopFormats {
  HopFormats(const std::shared_ptr<const WireFormat>& both) : inner(both), outer(both) {}
  HopFormats(std::shared_ptr<const WireFormat> inner_format, std::shared_ptr<const WireFormat> outer_format)
      : inner(std::move(inner_format)), outer(std::move(outer_format)) {}

  std::shared_ptr<const WireFormat> inner, outer;
};

// The calls of comm::Comm with the same names, over all ranks of the route. One hop in a summable format is exactly one
// such call in the payload's type. In a format that is not summable:
// - A reduction is an all-to-all of the encoded parts. Each rank decodes the parts that it receives and sums them in
//   fp32 in ascending order of the ranks. With two hops, the fp32 sums of the inner group are encoded again.
// - A gather transfers the payload of each owner unchanged over both hops. All ranks, including the owner, decode the
//   payload, so that all have the same bits. Where only the outer format is one of bytes, its payloads are decoded
//   between the hops, and their values are gathered in the inner format.
// The rules for buffers are those of comm::Comm; the groups of the route outlive the calls.
class Collective {
 public:
  // The draws are those of one collective on one rank, for formats that round at random. With `feedback`, which is for
  // this buffer and outlives the calls, the first encoding of a reduction uses it instead of the format's rounding.
  Collective(HopFormats formats, const Route& route, const ops::RoundingDraw& draw = {},
             ErrorFeedback* feedback = nullptr);

  // Whether values of this type arrive without rounding.
  bool preserves(at::ScalarType kept) const;
  // Whether a reduction encodes the rank's own values to bytes, before anything is summed.
  bool rounds_before_sums() const { return !formats_.inner->summable(); }
  const Route& route() const { return route_; }

  // Sums `data` in place; does nothing on a route with one member. Except for one hop in a summable format, the
  // all-reduce is a reduce-scatter and an all-gather, and the elements must be divisible among the members.
  PendingCollective all_reduce(const at::Tensor& data, const comm::Label& label) const;
  // Reduces and scatters: `to` [n] gets this rank's block of the sum of `from` [size n]; `to` may be that block of
  // `from`.
  PendingCollective reduce_scatter(const at::Tensor& from, const at::Tensor& to, const comm::Label& label) const;
  // Gathers: `whole` [size n] gets the blocks `own` [n] of all ranks; `own` may be this rank's block of `whole`.
  PendingCollective all_gather(const at::Tensor& own, const at::Tensor& whole, const comm::Label& label) const;

 private:
  // Each encoding of the collective has its own draws.
  enum class Encoding : uint32_t { first_reduction, second_reduction, gather };
  at::Tensor encode(const WireFormat& format, const at::Tensor& values, int64_t parts, Encoding encoding) const;
  // A call over one group.
  PendingCollective reduce_scatter_over(comm::Comm& group, const std::shared_ptr<const WireFormat>& format,
                                        const at::Tensor& from, const at::Tensor& to, const comm::Label& label,
                                        Encoding encoding) const;
  PendingCollective gather_decoded_between_hops(const at::Tensor& payload, const at::Tensor& whole,
                                                const comm::Label& label) const;

  HopFormats formats_;
  Route route_;
  ops::RoundingDraw draw_;
  ErrorFeedback* feedback_;
};

}  // namespace terrace::parallel
