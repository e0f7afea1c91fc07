// Posts calls, works on their pieces, and waits for them: a waiting rank spins briefly and then sleeps.
#include "terrace/comm/threads/thread_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/comm/describe_call.h"
#include "terrace/comm/wait_limits.h"

namespace terrace::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto spin_time = std::chrono::microseconds(50);  // about what waking a sleeping thread costs
constexpr int64_t all_pieces = std::numeric_limits<int64_t>::max();
constexpr std::array<int64_t, 2> both = {0, 1};  // the ends of a message

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The first member whose call differs from that of member 0, or -1.
int64_t find_mismatch(const SharedCall& shared, bool labels_too) {
  const Call& first = shared.posted(0);
  const bool collective = first.kind != Kind::send && first.kind != Kind::receive;
  for (int64_t i = 1; i < shared.members(); ++i) {
    const Call& call = shared.posted(i);
    if (call.type != first.type || call.count != first.count) return i;
    if (collective && (call.kind != first.kind || call.peer != first.peer)) return i;
    if (labels_too && to_string(call.label) != to_string(first.label)) return i;
  }
  return -1;
}

// Says how the calls of the members, who have all posted, differ; empty where they agree.
std::string disagreement(const QueueView& view, const SharedCall& shared) {
  const int64_t other = find_mismatch(shared, view.all.options().check_calls);
  if (other < 0) return "";
  const auto makes = [&](int64_t i) {
    return fmt::format("rank {} makes {}", view.ranks[static_cast<size_t>(i)],
                       with_contents(view.group, shared.posted(i)));
  };
  return fmt::format("ranks disagree on a call: {}, {}", makes(0), makes(other));
}

[[noreturn]] void fail_all(const QueueView& view, const std::string& reason) {
  view.all.abort(reason, view.own_rank());
  throw CommError(reason);
}

// Computes this member's result of a tiny call that all members have posted.
void complete_tiny(const QueueView& view, SharedCall& shared) {
  const std::string wrong = disagreement(view, shared);
  if (!wrong.empty()) fail_all(view, wrong);
  shared.run_tiny(view.own, view.in_rank_order);
  view.queue.leave(shared, view.own);
}

// Publishes which ranks a rank waits for, as long as this object lives.
class Waiting {
 public:
  Waiting(WaitedFor& by, WaitedFor::Missing missing) : by_(by), missing_(std::move(missing)) { by_.set(&missing_); }
  ~Waiting() { by_.set(nullptr); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  WaitedFor& by_;
  const WaitedFor::Missing missing_;
};

class PendingCall : public Work::State {
 public:
  PendingCall(QueueView& view, SharedCall& shared)
      : view_(view), shared_(shared), tiny_(is_tiny(shared.posted(view.own))) {}

  void wait() override;
  bool done() override;
  void abandon() override;

 private:
  SharedCall::State state() const;
  bool spin(SharedCall::State seen) const;
  bool sleep(SharedCall::State seen, Clock::time_point deadline) const;
  std::vector<int64_t> missing() const;
  int64_t missing_and_ended() const;
  bool has_tiny_posts() const;
  std::string describe_own_call() const;
  std::string describe_waiting_ranks() const;
  void log_long_wait(double seconds) const;
  void fail(const std::string& reason);

  QueueView& view_;
  SharedCall& shared_;
  const bool tiny_;
};

SharedCall::State PendingCall::state() const {
  if (!tiny_) return shared_.state();
  return shared_.all_posted() ? SharedCall::complete : SharedCall::gathering;
}

void PendingCall::wait() {
  const double timeout = std::clamp(view_.all.options().timeout_seconds, 0.0, 1e8);
  const bool limited = shared_.posted(view_.own).limited;
  const auto began = Clock::now();
  const auto patience = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(limited ? timeout : std::min(timeout, log_interval_seconds)));
  auto deadline = began + patience;
  while (true) {
    const SharedCall::State seen = state();
    if (seen == SharedCall::complete) {
      return tiny_ ? complete_tiny(view_, shared_) : view_.queue.leave(shared_, view_.own);
    }
    if (seen == SharedCall::refused) throw CommError(shared_.refusal());
    if (seen == SharedCall::open && shared_.help(all_pieces)) {
      view_.notify_others();
      continue;
    }
    if (spin(seen)) continue;
    // Lasts until the message about giving up is composed: another rank that gives up meanwhile reads it too.
    const Waiting waiting(view_.all.waited_for(view_.own_rank()), [this] { return missing(); });
    const bool in_time = sleep(seen, seen == SharedCall::open ? Clock::time_point::max() : deadline);
    if (seen == SharedCall::open || state() != seen) continue;
    if (!in_time && !limited) {
      log_long_wait(std::chrono::duration<double>(Clock::now() - began).count());
      deadline = Clock::now() + patience;
    } else if (!in_time) {
      fail(fmt::format("waited {:g} s: {}", timeout, describe_waiting_ranks()));
    } else if (view_.all.aborted()) {
      fail("");
    } else if (has_tiny_posts()) {
      fail_all(view_, disagreement(view_, shared_));
    } else {
      fail(fmt::format("rank {} has ended: {}", view_.ranks[static_cast<size_t>(missing_and_ended())],
                       describe_waiting_ranks()));
    }
  }
}

bool PendingCall::done() {
  switch (state()) {
    case SharedCall::gathering:
      return view_.all.aborted() || missing_and_ended() >= 0;
    case SharedCall::open:
      if (!shared_.help(1)) return false;
      view_.notify_others();
      return true;
    default:
      return true;
  }
}

void PendingCall::abandon() {
  view_.all.expect_failure(view_.own_rank());
  // The others read the post of a tiny call, not its buffers.
  if (!tiny_ && !shared_.give_up()) wait();
}

// Spins for a while; returns whether the state changed.
bool PendingCall::spin(SharedCall::State seen) const {
  if (!view_.all.may_spin()) return false;
  const auto end = Clock::now() + spin_time;
  do {
    for (int i = 0; i < 64; ++i) {
      if (state() != seen) return true;
      pause_briefly();
    }
  } while (Clock::now() < end);
  return false;
}

// Sleeps until the state may have changed or the call can fail; returns false at the deadline.
bool PendingCall::sleep(SharedCall::State seen, Clock::time_point deadline) const {
  const auto ready = [&] {
    if ((tiny_ ? state() : shared_.state_after_stores()) != seen) return true;
    return seen == SharedCall::gathering && (view_.all.aborted() || missing_and_ended() >= 0 || has_tiny_posts());
  };
  return view_.all.wait_until(view_.own_rank(), ready, deadline);
}

// Ranks that have not made the call.
std::vector<int64_t> PendingCall::missing() const {
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < shared_.members(); ++i) {
    if (!shared_.has_posted(i)) ranks.push_back(view_.ranks[static_cast<size_t>(i)]);
  }
  return ranks;
}

// A rank that has ended and never made the call, or -1.
int64_t PendingCall::missing_and_ended() const {
  for (int64_t i = 0; i < shared_.members(); ++i) {
    // The order of the two reads matters: a rank posts all its calls before it ends.
    if (view_.all.has_ended(view_.ranks[static_cast<size_t>(i)]) && !shared_.has_posted(i)) return i;
  }
  return -1;
}

// Whether all members have posted, but some of them a tiny call, so that nobody opens the call.
bool PendingCall::has_tiny_posts() const {
  if (tiny_ || !shared_.all_posted()) return false;
  for (int64_t i = 0; i < shared_.members(); ++i) {
    if (is_tiny(shared_.posted(i))) return true;
  }
  return false;
}

std::string PendingCall::describe_own_call() const {
  return fmt::format("rank {} waits in {}", view_.own_rank(), describe(view_.group, shared_.posted(view_.own)));
}

std::string PendingCall::describe_waiting_ranks() const {
  std::string text = describe_own_call();
  const std::vector<int64_t> absent = missing();
  std::vector<int64_t> named(absent.begin(), absent.begin() + std::min(std::ssize(absent), most_named));
  for (const int64_t rank : named) {
    text += fmt::format("; rank {} never entered it; {}", rank, view_.all.flight(rank).describe_last_call());
  }
  if (std::ssize(absent) > most_named) {
    text += fmt::format("; {} more ranks never entered it either", std::ssize(absent) - most_named);
  }
  // Follows the ranks that wait for other ranks to those that do not wait.
  for (size_t i = 0; i < named.size(); ++i) {
    for (const int64_t rank : view_.all.waited_for(named[i]).ranks()) {
      const bool known = rank == view_.own_rank() || std::ranges::find(named, rank) != named.end();
      if (known || std::ssize(named) == most_named) continue;
      text +=
          fmt::format("; rank {} waits for rank {}; {}", named[i], rank, view_.all.flight(rank).describe_last_call());
      named.push_back(rank);
    }
  }
  return text;
}

// Only the lowest of the ranks that wait logs it.
void PendingCall::log_long_wait(double seconds) const {
  const std::vector<int64_t> absent = missing();
  const bool first = std::ranges::none_of(view_.ranks, [&](int64_t rank) {
    return rank < view_.own_rank() && std::ranges::find(absent, rank) == absent.end();
  });
  if (first) log_warning("still waiting after {:.0f} s: {}", seconds, describe_waiting_ranks());
}

// Makes all ranks fail with this one, unless the call will complete after all. An earlier reason stays.
void PendingCall::fail(const std::string& reason) {
  if (!reason.empty()) view_.all.abort(reason, view_.own_rank());
  if (!tiny_ && !shared_.give_up()) return;
  const std::string first_reason = view_.all.reason(view_.own_rank());
  throw CommError(first_reason == reason ? reason : fmt::format("{}; {}", first_reason, describe_own_call()));
}

}  // namespace

void QueueView::notify_others() const {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (static_cast<int64_t>(i) != own) all.notify(ranks[i]);
  }
}

ThreadComm::ThreadComm(ThreadRanks& all, ThreadChannel& channel, int64_t member)
    : Comm(channel.group, member, &all.flight(channel.group.ranks[static_cast<size_t>(member)])),
      all_(all),
      channel_(channel),
      collectives_{.all = all,
                   .queue = channel.collectives,
                   .group = channel.group,
                   .ranks = channel.group.ranks,
                   .in_rank_order = channel.in_rank_order,
                   .own = member,
                   .next = channel.collectives.start()} {}

QueueView& ThreadComm::view_for(const Call& call) {
  if (call.kind != Kind::send && call.kind != Kind::receive) return collectives_;
  const bool sends = call.kind == Kind::send;
  std::map<int64_t, QueueView>& views = sends ? sends_ : receives_;
  const auto found = views.find(call.peer);
  if (found != views.end()) return found->second;
  const int64_t sender = sends ? member() : call.peer, receiver = sends ? call.peer : member();
  CallQueue& queue = channel_.sends(sender, receiver);
  const auto rank = [&](int64_t of) { return group().ranks[static_cast<size_t>(of)]; };
  return views
      .try_emplace(call.peer, QueueView{.all = all_,
                                        .queue = queue,
                                        .group = channel_.group,
                                        .ranks = {rank(sender), rank(receiver)},
                                        .in_rank_order = both,
                                        .own = sends ? 0 : 1,
                                        .next = queue.start()})
      .first->second;
}

// Nobody uses the buffers of a call that was given up, so they need no owner.
Work ThreadComm::start(const Call& call, Owner) {
  if (all_.aborted()) throw CommError(all_.reason(collectives_.own_rank()));
  QueueView& view = view_for(call);
  SharedCall& shared = view.queue.take(view.next);
  if (is_tiny(call)) {
    if (shared.post_tiny(view.own, call)) {
      view.notify_others();
      complete_tiny(view, shared);
      return {};
    }
  } else if (shared.post(view.own, call)) {
    const std::string wrong = disagreement(view, shared);
    if (!wrong.empty()) {
      shared.refuse(wrong);
      fail_all(view, wrong);
    }
    shared.run_or_open(view.in_rank_order);
    view.notify_others();
    if (shared.state() == SharedCall::complete) {
      view.queue.leave(shared, view.own);
      return {};
    }
  }
  return Work(std::make_unique<PendingCall>(view, shared));
}

}  // namespace terrace::comm
