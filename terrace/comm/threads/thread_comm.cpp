// Posting a call, helping it along, and waiting for it: spinning briefly, then asleep.
#include "terrace/comm/threads/thread_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/log.h"
#include "terrace/comm/describe_call.h"

namespace terrace::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto spin_time = std::chrono::microseconds(50);  // about what waking a sleeping thread costs
constexpr double words_seconds = 600;                      // between lines in the log about one wait, at most
constexpr int64_t most_told = 8;                           // of the ranks that are missing
constexpr int64_t all_chunks = std::numeric_limits<int64_t>::max();

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The first member whose call is not the one of member 0, or none.
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

// In what the members, who have all posted, asked for different calls; empty where they agree.
std::string disagreement(const ThreadLine& line, const SharedCall& shared) {
  const int64_t other = find_mismatch(shared, line.all.options().check_calls);
  if (other < 0) return "";
  const auto makes = [&](int64_t i) {
    return fmt::format("rank {} makes {}", line.ranks[static_cast<size_t>(i)],
                       with_contents(line.group, shared.posted(i)));
  };
  return fmt::format("ranks disagree on a call: {}, {}", makes(0), makes(other));
}

[[noreturn]] void fail_all(const ThreadLine& line, const std::string& reason) {
  line.all.abort(reason, line.own_rank());
  throw CommError(reason);
}

// This member's part of a tiny call that all have posted.
void complete_tiny(const ThreadLine& line, SharedCall& shared) {
  const std::string wrong = disagreement(line, shared);
  if (!wrong.empty()) fail_all(line, wrong);
  shared.run_tiny(line.own, line.in_rank_order);
  line.queue.leave(shared, line.own);
}

// Says whom a rank waits for as long as it lives.
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
  PendingCall(ThreadLine& line, SharedCall& shared)
      : line_(line), shared_(shared), tiny_(is_tiny(shared.posted(line.own))) {}

  void wait() override;
  bool done() override;
  void abandon() override;

 private:
  SharedCall::State state() const;
  bool spin(SharedCall::State seen) const;
  bool sleep(SharedCall::State seen, Clock::time_point deadline) const;
  std::vector<int64_t> missing() const;
  int64_t missing_and_ended() const;
  bool mixed() const;
  std::string waits() const;
  std::string who_is_where() const;
  void say_that_it_waits(double seconds) const;
  void fail(const std::string& reason);

  ThreadLine& line_;
  SharedCall& shared_;
  const bool tiny_;
};

SharedCall::State PendingCall::state() const {
  if (!tiny_) return shared_.state();
  return shared_.all_posted() ? SharedCall::complete : SharedCall::gathering;
}

void PendingCall::wait() {
  const double timeout = std::clamp(line_.all.options().timeout_seconds, 0.0, 1e8);
  const bool limited = shared_.posted(line_.own).limited;
  const auto began = Clock::now();
  const auto patience = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(limited ? timeout : std::min(timeout, words_seconds)));
  auto deadline = began + patience;
  while (true) {
    const SharedCall::State seen = state();
    if (seen == SharedCall::complete) {
      return tiny_ ? complete_tiny(line_, shared_) : line_.queue.leave(shared_, line_.own);
    }
    if (seen == SharedCall::refused) throw CommError(shared_.refusal());
    if (seen == SharedCall::open && shared_.help(all_chunks)) {
      line_.ring_others();
      continue;
    }
    if (spin(seen)) continue;
    // Also while it says why it gives up: whoever gives up at the same time may ask.
    const Waiting waiting(line_.all.waited_for(line_.own_rank()), [this] { return missing(); });
    const bool in_time = sleep(seen, seen == SharedCall::open ? Clock::time_point::max() : deadline);
    if (seen == SharedCall::open || state() != seen) continue;
    if (!in_time && !limited) {
      say_that_it_waits(std::chrono::duration<double>(Clock::now() - began).count());
      deadline = Clock::now() + patience;
    } else if (!in_time) {
      fail(fmt::format("waited {:g} s: {}", timeout, who_is_where()));
    } else if (line_.all.aborted()) {
      fail("");
    } else if (mixed()) {
      fail_all(line_, disagreement(line_, shared_));
    } else {
      fail(fmt::format("rank {} has ended: {}", line_.ranks[static_cast<size_t>(missing_and_ended())], who_is_where()));
    }
  }
}

bool PendingCall::done() {
  switch (state()) {
    case SharedCall::gathering:
      return line_.all.aborted() || missing_and_ended() >= 0;
    case SharedCall::open:
      if (!shared_.help(1)) return false;
      line_.ring_others();
      return true;
    default:
      return true;
  }
}

void PendingCall::abandon() {
  line_.all.expect_failure(line_.own_rank());
  // The others read what a tiny call holds, and not its buffers.
  if (!tiny_ && !shared_.give_up()) wait();
}

// Whether the state changed.
bool PendingCall::spin(SharedCall::State seen) const {
  if (!line_.all.may_spin()) return false;
  const auto end = Clock::now() + spin_time;
  do {
    for (int i = 0; i < 64; ++i) {
      if (state() != seen) return true;
      pause_briefly();
    }
  } while (Clock::now() < end);
  return false;
}

// Whether there is something to look at before the deadline.
bool PendingCall::sleep(SharedCall::State seen, Clock::time_point deadline) const {
  const auto come = [&] {
    if ((tiny_ ? state() : shared_.state_after_stores()) != seen) return true;
    return seen == SharedCall::gathering && (line_.all.aborted() || missing_and_ended() >= 0 || mixed());
  };
  Bell& bell = line_.all.bell(line_.own_rank());
  return bell.sleep_until(come, deadline);
}

// Ranks that have not made the call.
std::vector<int64_t> PendingCall::missing() const {
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < shared_.members(); ++i) {
    if (!shared_.has_posted(i)) ranks.push_back(line_.ranks[static_cast<size_t>(i)]);
  }
  return ranks;
}

// A rank that has ended and never made the call, or -1.
int64_t PendingCall::missing_and_ended() const {
  for (int64_t i = 0; i < shared_.members(); ++i) {
    // In this order: what it posted, it posted before it ended.
    if (line_.all.has_ended(line_.ranks[static_cast<size_t>(i)]) && !shared_.has_posted(i)) return i;
  }
  return -1;
}

// Whether all have posted, but some a tiny call, which does not count for opening others.
bool PendingCall::mixed() const {
  if (tiny_ || !shared_.all_posted()) return false;
  for (int64_t i = 0; i < shared_.members(); ++i) {
    if (is_tiny(shared_.posted(i))) return true;
  }
  return false;
}

std::string PendingCall::waits() const {
  return fmt::format("rank {} waits in {}", line_.own_rank(), describe(line_.group, shared_.posted(line_.own)));
}

std::string PendingCall::who_is_where() const {
  std::string words = waits();
  const std::vector<int64_t> absent = missing();
  std::vector<int64_t> told(absent.begin(), absent.begin() + std::min(std::ssize(absent), most_told));
  for (const int64_t rank : told) {
    words += fmt::format("; rank {} never entered it; {}", rank, line_.all.flight(rank).describe_last_call());
  }
  if (std::ssize(absent) > most_told) {
    words += fmt::format("; neither did {} more ranks", std::ssize(absent) - most_told);
  }
  // Ranks that wait themselves, to those that do not.
  for (size_t i = 0; i < told.size(); ++i) {
    for (const int64_t rank : line_.all.waited_for(told[i]).ranks()) {
      const bool known = rank == line_.own_rank() || std::ranges::find(told, rank) != told.end();
      if (known || std::ssize(told) == most_told) continue;
      words +=
          fmt::format("; rank {} waits for rank {}; {}", told[i], rank, line_.all.flight(rank).describe_last_call());
      told.push_back(rank);
    }
  }
  return words;
}

// One of those that wait says it.
void PendingCall::say_that_it_waits(double seconds) const {
  const std::vector<int64_t> absent = missing();
  const bool first = std::ranges::none_of(line_.ranks, [&](int64_t rank) {
    return rank < line_.own_rank() && std::ranges::find(absent, rank) == absent.end();
  });
  if (first) log_warning("waits on after {:.0f} s: {}", seconds, who_is_where());
}

// All ranks fail with this one, unless the call will complete after all. An earlier reason stays.
void PendingCall::fail(const std::string& reason) {
  if (!reason.empty()) line_.all.abort(reason, line_.own_rank());
  if (!tiny_ && !shared_.give_up()) return;
  const std::string first_reason = line_.all.reason(line_.own_rank());
  throw CommError(first_reason == reason ? reason : fmt::format("{}; {}", first_reason, waits()));
}

}  // namespace

void ThreadLine::ring_others() const {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (static_cast<int64_t>(i) != own) all.bell(ranks[i]).ring();
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

ThreadLine& ThreadComm::line_of(const Call& call) {
  if (call.kind != Kind::send && call.kind != Kind::receive) return collectives_;
  const bool sends = call.kind == Kind::send;
  std::map<int64_t, ThreadLine>& lines = sends ? sends_ : receives_;
  const auto found = lines.find(call.peer);
  if (found != lines.end()) return found->second;
  const int64_t sender = sends ? member() : call.peer, receiver = sends ? call.peer : member();
  CallQueue& queue = channel_.sends(sender, receiver);
  const auto rank = [&](int64_t of) { return group().ranks[static_cast<size_t>(of)]; };
  return lines
      .try_emplace(call.peer, ThreadLine{.all = all_,
                                         .queue = queue,
                                         .group = channel_.group,
                                         .ranks = {rank(sender), rank(receiver)},
                                         .in_rank_order = {0, 1},
                                         .own = sends ? 0 : 1,
                                         .next = queue.start()})
      .first->second;
}

// What is given up here is used by nobody, so that the buffers need no owner.
Work ThreadComm::start(const Call& call, Owner) {
  if (all_.aborted()) throw CommError(all_.reason(collectives_.own_rank()));
  ThreadLine& line = line_of(call);
  SharedCall& shared = line.queue.take(line.next);
  if (is_tiny(call)) {
    if (shared.post_tiny(line.own, call)) {
      line.ring_others();
      complete_tiny(line, shared);
      return {};
    }
  } else if (shared.post(line.own, call)) {
    const std::string wrong = disagreement(line, shared);
    if (!wrong.empty()) {
      shared.refuse(wrong);
      fail_all(line, wrong);
    }
    shared.run_or_open(line.in_rank_order);
    line.ring_others();
    if (shared.state() == SharedCall::complete) {
      line.queue.leave(shared, line.own);
      return {};
    }
  }
  return Work(std::make_unique<PendingCall>(line, shared));
}

}  // namespace terrace::comm
