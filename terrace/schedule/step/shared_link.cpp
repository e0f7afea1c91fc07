// Shares the rate of a link equally among the calls under way (processor sharing).
#include "terrace/schedule/step/shared_link.h"

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::schedule {

void SharedLink::add(size_t call, size_t communicator, double time, double seconds) {
  const size_t index = communicator_index(communicator);
  Communicator& own = communicators_[index];
  if (own.is_under_way) {
    own.queue.push_back({call, seconds});
  } else {
    begin(index, {call, seconds}, time);
    find_next_end();
  }
}

void SharedLink::find_next_end() {
  first_ = 0;
  for (size_t i = 1; i < under_way_.size(); ++i) {
    if (under_way_[i].left < under_way_[first_].left) first_ = i;
  }
  next_end_ = under_way_.empty() ? std::numeric_limits<double>::infinity()
                                 : since_ + under_way_[first_].left * static_cast<double>(under_way_.size());
}

SharedLink::Ended SharedLink::end_next() {
  TERRACE_CHECK(!under_way_.empty(), "no call is on the link");
  const UnderWay ended = under_way_[first_];
  const double end = next_end_;
  under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(first_));
  for (UnderWay& one : under_way_) one.left -= ended.left;
  since_ = end;
  Communicator& own = communicators_[ended.communicator];
  own.is_under_way = false;
  if (own.next < own.queue.size()) {
    begin(ended.communicator, own.queue[own.next++], end);
  } else {
    own.queue.clear();
    own.next = 0;
  }
  find_next_end();
  return {ended.call, {ended.begin, end}};
}

void SharedLink::begin(size_t communicator, const Queued& call, double time) {
  transfer_until(time);
  communicators_[communicator].is_under_way = true;
  under_way_.push_back({.call = call.call, .communicator = communicator, .begin = time, .left = call.seconds});
}

void SharedLink::transfer_until(double time) {
  const double each = (time - since_) / static_cast<double>(std::max<size_t>(1, under_way_.size()));
  // Rounding must not leave less than nothing of a call.
  for (UnderWay& one : under_way_) one.left = std::max(0.0, one.left - each);
  since_ = time;
}

size_t SharedLink::communicator_index(size_t number) {
  const auto found = std::ranges::find(communicators_, number, &Communicator::number);
  const auto index = static_cast<size_t>(found - communicators_.begin());
  if (index == communicators_.size()) communicators_.push_back({.number = number});
  return index;
}

}  // namespace terrace::schedule
