// Counts computations as they end and transfers on links that they share.
#include "terrace/rehearse/rank_clock.h"

namespace terrace::rehearse {
namespace {

using Kind = schedule::StepInstruction::Kind;

constexpr double under_way = -1;

// Whether the instruction occupies the rank for the seconds of its costs.
bool occupies(const schedule::StepInstruction& one) {
  return !schedule::is_send(one.kind) && !schedule::is_receive(one.kind) && one.kind != Kind::begin_movement &&
         one.kind != Kind::release && one.kind != Kind::allocate_gradient;
}

}  // namespace

RankClock::RankClock(const schedule::StepCosts& costs, int64_t stage, double slowness, int64_t slow_after)
    : costs_(costs),
      stage_(stage),
      slowness_(slowness),
      slow_after_(slow_after),
      links_(static_cast<size_t>(costs.num_links)) {}

RankClock::Transfer RankClock::begin_transfer(size_t communicator, double seconds_outside, double slowness) {
  Transfer transfer{.number = ends_.size(), .seconds = 0, .end = now_};
  const bool takes_time = current_ != nullptr && !has_begun_call_ &&
                          (schedule::is_send(current_->kind) || current_->kind == Kind::begin_movement);
  if (!takes_time) {
    if (current_ == nullptr) transfer.seconds = seconds_outside * (1 + slowness);
    transfer.end = now_ + transfer.seconds;
    ends_.push_back(transfer.end);
    return transfer;
  }
  has_begun_call_ = true;
  end_transfers_until(now_);
  transfer.seconds = costs_.seconds(stage_, *current_) * (1 + slowness);
  schedule::SharedLink& link = links_.at(static_cast<size_t>(costs_.link(stage_, *current_)));
  ends_.push_back(under_way);
  link.add(transfer.number, communicator, now_, transfer.seconds);
  next_end_ = std::min(next_end_, link.next_end());
  // The end if no other call is added: a copy of the link runs until then.
  schedule::SharedLink alone = link;
  while (true) {
    const schedule::SharedLink::Ended ended = alone.end_next();
    if (ended.call != transfer.number) continue;
    transfer.end = ended.interval.end;
    return transfer;
  }
}

double RankClock::end_of(const Transfer& transfer) {
  while (ends_.at(transfer.number) == under_way) end_next_transfer();
  return ends_[transfer.number];
}

bool RankClock::has_ended(const Transfer& transfer) {
  end_transfers_until(now_);
  const double end = ends_.at(transfer.number);
  return end != under_way && end <= now_;
}

void RankClock::end_next_transfer() {
  const auto link = std::ranges::min_element(links_, {}, &schedule::SharedLink::next_end);
  const schedule::SharedLink::Ended ended = link->end_next();
  ends_.at(ended.call) = ended.interval.end;
  next_end_ = std::ranges::min_element(links_, {}, &schedule::SharedLink::next_end)->next_end();
}

void RankClock::end_transfers_until(double time) {
  while (next_end_ <= time) end_next_transfer();
}

// Computes for so many seconds, and for longer while calls of this rank are under way.
void RankClock::compute(double seconds, bool beside_calls) {
  double left = seconds * (is_slow() ? 1 + slowness_ : 1);
  end_transfers_until(now_);
  while (beside_calls && left > 0 && next_end_ < std::numeric_limits<double>::infinity()) {
    if (now_ + left * costs_.beside_calls <= next_end_) {
      now_ += left * costs_.beside_calls;
      return;
    }
    left -= (next_end_ - now_) / costs_.beside_calls;
    now_ = next_end_;
    end_next_transfer();
  }
  now_ += left;
}

void RankClock::begin_step() { executed_.clear(); }

void RankClock::begin(const schedule::StepInstruction& instruction) {
  current_ = &instruction;
  has_begun_call_ = false;
  instruction_began_ = now_;
}

void RankClock::end(const schedule::StepInstruction& instruction) {
  if (occupies(instruction)) {
    compute(costs_.seconds(stage_, instruction), costs_.beside_calls > 1 && instruction.micro_batch >= 0);
  }
  executed_.push_back({instruction, instruction_began_, now_});
  current_ = nullptr;
}

void RankClock::end_step() { step_ends_.push_back(now_); }

}  // namespace terrace::rehearse
