// Shares the rate of a link equally among the calls under way (processor sharing).
#include "terrace/schedule/shared_link.h"

#include <algorithm>
#include <limits>

#include "terrace/base/error.h"

namespace terrace::schedule {

void SharedLink::add(size_t call, size_t communicator, double time, double seconds) {
  const size_t index = communicator_index(communicator);
  Communicator& own = communicators_[index];
  if (own.is_under_way) {
    own.queue.push_back({call, seconds});
  } else {
    begin(index, {call, seconds}, time);
  }
}

double SharedLink::next_end() const {
  if (under_way_.empty()) return std::numeric_limits<double>::infinity();
  double least = under_way_.front().left;
  for (const UnderWay& one : under_way_) least = std::min(least, one.left);
  return since_ + least * static_cast<double>(under_way_.size());
}

SharedLink::Ended SharedLink::end_next() {
  TERRACE_CHECK(!under_way_.empty(), "no call is on the link");
  const auto first = std::ranges::min_element(under_way_, {}, &UnderWay::left);
  const UnderWay ended = *first;
  const double end = next_end();
  under_way_.erase(first);
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
