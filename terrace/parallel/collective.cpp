// Implements each collective as one or more calls, with encoding before and decoding after them.
#include "terrace/parallel/collective.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::parallel {
namespace {

// The members of a group in ascending order of their ranks, in which all sums are taken.
std::vector<int64_t> members_by_rank(const comm::Comm& group) {
  const std::vector<int64_t>& ranks = group.group().ranks;
  std::vector<int64_t> members(ranks.size());
  std::iota(members.begin(), members.end(), int64_t{0});
  std::ranges::sort(members, {}, [&](int64_t member) { return ranks[static_cast<size_t>(member)]; });
  return members;
}

// The sum of `payloads`, one of equal size from each member, in the order of `members` and in fp32.
void sum_decoded(const WireFormat& format, const at::Tensor& payloads, const std::vector<int64_t>& members,
                 const at::Tensor& to) {
  const int64_t size = payloads.numel() / std::ssize(members);
  const at::Tensor sum = to.scalar_type() == at::kFloat ? to : at::empty_like(to, to.options().dtype(at::kFloat));
  format.decode(payloads.narrow(0, members.front() * size, size), 1, sum);
  for (size_t i = 1; i < members.size(); ++i) format.add_decoded(payloads.narrow(0, members[i] * size, size), sum);
  if (!sum.is_same(to)) to.copy_(sum);
}

}  // namespace

PendingCollective::PendingCollective(Transfer call, std::function<void()> after)
    : call_(std::move(call)), after_(std::move(after)) {}

void PendingCollective::end_call() {
  call_.finish();
  const at::NoGradGuard no_grad;
  if (after_) std::exchange(after_, {})();
}

void PendingCollective::begin_call() {
  if (next_.empty()) return;
  const at::NoGradGuard no_grad;
  PendingCollective begun = next_.front()();
  next_.erase(next_.begin());
  call_ = std::move(begun.call_);
  after_ = std::move(begun.after_);
  // The calls that follow in what has begun come before those that follow it.
  next_.insert(next_.begin(), begun.next_.begin(), begun.next_.end());
}

void PendingCollective::finish() {
  end_call();
  while (!next_.empty()) {
    begin_call();
    end_call();
  }
}

Collective::Collective(HopFormats formats, const Route& route, const ops::RoundingDraw& draw, ErrorFeedback* feedback)
    : formats_(std::move(formats)), route_(route), draw_(draw), feedback_(feedback) {
  TERRACE_CHECK(formats_.inner == formats_.outer || formats_.inner->summable(), "two formats of bytes on one route");
}

bool Collective::preserves(at::ScalarType kept) const {
  return formats_.inner->preserves(kept) && (route_.outer == nullptr || formats_.outer->preserves(kept));
}

at::Tensor Collective::encode(const WireFormat& format, const at::Tensor& values, int64_t parts,
                              Encoding encoding) const {
  const int64_t expected = parts * format.bytes(values.numel() / parts, values.scalar_type());
  ops::RoundingDraw draw = draw_;
  draw.words[1] = draw.words[1] * 3 + static_cast<uint32_t>(encoding);
  const bool feeds_back = feedback_ != nullptr && encoding == Encoding::first_reduction;
  at::Tensor payloads = feeds_back ? feedback_->encode(values, parts) : format.encode(values, parts, draw);
  TERRACE_CHECK(static_cast<int64_t>(payloads.nbytes()) == expected, "a payload of {} bytes instead of {}",
                payloads.nbytes(), expected);
  return payloads;
}

PendingCollective Collective::reduce_scatter_over(comm::Comm& group, const std::shared_ptr<const WireFormat>& format,
                                                  const at::Tensor& from, const at::Tensor& to,
                                                  const comm::Label& label, Encoding encoding) const {
  if (format->summable()) {
    return Transfer::reduce_scatter(group, from, to, format->payload_type(from.scalar_type()), label);
  }
  const at::Tensor sent = encode(*format, from, group.size(), encoding);
  const at::Tensor received = at::empty_like(sent);
  return {Transfer::all_to_all(group, sent, received, label),
          [=, members = members_by_rank(group)] { sum_decoded(*format, received, members, to); }};
}

PendingCollective Collective::reduce_scatter(const at::Tensor& from, const at::Tensor& to,
                                             const comm::Label& label) const {
  const std::shared_ptr<const WireFormat>& inner = formats_.inner;
  if (route_.outer == nullptr) {
    return reduce_scatter_over(*route_.inner, inner, from, to, label, Encoding::first_reduction);
  }
  // Sums by the communicator have the payload's type and stay in it between the two hops.
  const at::ScalarType between = inner->summable() ? inner->payload_type(from.scalar_type()) : at::kFloat;
  const at::Tensor sums = at::empty({to.numel() * route_.outer_size()}, from.options().dtype(between));
  PendingCollective reduction = reduce_scatter_over(*route_.inner, inner, from, sums, label, Encoding::first_reduction);
  reduction.next_.emplace_back([=, *this] {
    return reduce_scatter_over(*route_.outer, formats_.outer, sums, to, label, Encoding::second_reduction);
  });
  return reduction;
}

PendingCollective Collective::all_gather(const at::Tensor& own, const at::Tensor& whole,
                                         const comm::Label& label) const {
  const bool has_two_formats = route_.outer != nullptr && formats_.outer != formats_.inner;
  const std::shared_ptr<const WireFormat>& format = has_two_formats ? formats_.outer : formats_.inner;
  const at::Tensor payload = encode(*format, own, 1, Encoding::gather);
  if (has_two_formats) return gather_decoded_between_hops(payload, whole, label);
  const at::ScalarType type = payload.scalar_type();
  const bool in_place = format->preserves(whole.scalar_type());
  const at::Tensor payloads = in_place ? whole : at::empty({route_.size() * payload.numel()}, payload.options());
  std::function<void()> decode = {};
  if (!in_place) {
    decode = [=, parts = route_.size()] { format->decode(payloads, parts, whole); };
  }
  if (route_.outer == nullptr) return {Transfer::all_gather(*route_.inner, payload, payloads, type, label), decode};
  // The blocks of this rank's outer group, which are contiguous.
  const int64_t outer_elements = route_.outer_size() * payload.numel();
  const at::Tensor of_outer = payloads.narrow(0, route_.inner->member() * outer_elements, outer_elements);
  PendingCollective gather = Transfer::all_gather(*route_.outer, payload, of_outer, type, label);
  gather.next_.emplace_back([=, inner = route_.inner] {
    return PendingCollective(Transfer::all_gather(*inner, of_outer, payloads, type, label), decode);
  });
  return gather;
}

PendingCollective Collective::gather_decoded_between_hops(const at::Tensor& payload, const at::Tensor& whole,
                                                          const comm::Label& label) const {
  const int64_t parts = route_.outer_size(), values = whole.numel() / route_.inner->size();
  // The blocks of this rank's outer group, which are contiguous.
  const at::Tensor of_outer = whole.narrow(0, route_.inner->member() * values, values);
  const at::Tensor payloads = at::empty({parts * payload.numel()}, payload.options());
  PendingCollective gather(Transfer::all_gather(*route_.outer, payload, payloads, payload.scalar_type(), label),
                           [=, format = formats_.outer] { format->decode(payloads, parts, of_outer); });
  gather.next_.emplace_back([=, inner = route_.inner, type = formats_.inner->payload_type(whole.scalar_type())] {
    return PendingCollective(Transfer::all_gather(*inner, of_outer, whole, type, label));
  });
  return gather;
}

PendingCollective Collective::all_reduce(const at::Tensor& data, const comm::Label& label) const {
  if (route_.size() == 1) return {};
  if (formats_.inner->summable() && route_.outer == nullptr) {
    return Transfer::all_reduce(*route_.inner, data, formats_.inner->payload_type(data.scalar_type()), label);
  }
  TERRACE_CHECK(data.numel() % route_.size() == 0, "{} elements are not divisible among {} ranks", data.numel(),
                route_.size());
  const int64_t size = data.numel() / route_.size();
  const at::Tensor own = data.narrow(0, route_.block() * size, size);
  PendingCollective reduction = reduce_scatter(data, own, label);
  reduction.next_.emplace_back([=, *this] { return all_gather(own, data, label); });
  return reduction;
}

}  // namespace terrace::parallel
