// Posts calls, claims their pieces, and recycles the pages of the queue.
#include "terrace/comm/threads/shared_call.h"

#include <algorithm>
#include <cstring>

namespace terrace::comm {
namespace {

constexpr int64_t page_calls = 16;

}  // namespace

struct CallPage {
  // The number of calls that a member has left. Only this member writes it, possibly from several threads.
  struct alignas(64) Left {
    std::atomic<int64_t> calls = 0;
  };

  explicit CallPage(int64_t members)
      : posts(static_cast<size_t>(page_calls * members)), left(static_cast<size_t>(members)) {
    for (int64_t i = 0; i < page_calls; ++i) {
      SharedCall& call = calls[static_cast<size_t>(i)];
      call.posts_ = std::span(posts).subspan(static_cast<size_t>(i * members), static_cast<size_t>(members));
      call.page_ = this;
    }
  }

  std::vector<Post> posts;
  std::vector<Left> left;
  std::array<SharedCall, page_calls> calls;
  CallPage* next = nullptr;      // guarded by the queue's mutex
  int64_t members_finished = 0;  // members that left all calls of the page; guarded by the queue's mutex
};

bool SharedCall::post_tiny(int64_t member, const Call& call) {
  Post& post = posts_[static_cast<size_t>(member)];
  post.call = call;
  if (call.count > 0)
    std::memcpy(post.tiny_data.data(), call.from, static_cast<size_t>(call.count * size_of(call.type)));
  // The member that posts last sees all posts, and after them which members sleep.
  post.is_posted.store(true, std::memory_order_seq_cst);
  return all_posted();
}

bool SharedCall::all_posted() const {
  return std::all_of(posts_.begin(), posts_.end(), [](const Post& post) { return post.is_posted.load(); });
}

void SharedCall::run_tiny(int64_t member, std::span<const int64_t> in_rank_order) const {
  comm::run_tiny({.posts = posts_, .in_rank_order = in_rank_order}, member);
}

bool SharedCall::post(int64_t member, const Call& call) {
  prepare_small(call, members(), member);
  Post& post = posts_[static_cast<size_t>(member)];
  post.call = call;
  post.is_posted.store(true, std::memory_order_release);
  return num_posted_.fetch_add(1, std::memory_order_acq_rel) + 1 == posts_.size();
}

void SharedCall::run_or_open(std::span<const int64_t> in_rank_order) {
  joint_ = {.posts = posts_, .in_rank_order = in_rank_order};
  plan_ = plan_pieces(joint_.of(0), members());
  if (plan_.small) {
    for (int64_t piece = 0; piece < plan_.pieces; ++piece) run_piece(joint_, plan_, piece);
  }
  state_.store(plan_.small ? complete : open, std::memory_order_seq_cst);
}

void SharedCall::refuse(const std::string& reason) {
  refusal_ = reason;
  state_.store(refused, std::memory_order_seq_cst);
}

bool SharedCall::help(int64_t most) {
  for (int64_t i = 0; i < most; ++i) {
    if (next_piece_.load(std::memory_order_relaxed) >= plan_.pieces) return false;
    const int64_t piece = next_piece_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= plan_.pieces) return false;
    run_piece(joint_, plan_, piece);
    if (pieces_done_.fetch_add(1, std::memory_order_acq_rel) + 1 == plan_.pieces) {
      state_.store(complete, std::memory_order_seq_cst);
      return true;
    }
  }
  return false;
}

bool SharedCall::give_up() {
  uint32_t posted = num_posted_.load(std::memory_order_acquire);
  while (posted < posts_.size()) {
    if (num_posted_.compare_exchange_weak(posted, posted | given_up, std::memory_order_acq_rel)) return true;
  }
  return (posted & given_up) != 0;
}

CallQueue::CallQueue(int64_t members) : members_(members), first_(fresh_page()) {}
CallQueue::~CallQueue() = default;

CallPage* CallQueue::fresh_page() {
  if (free_.empty()) {
    pages_.push_back(std::make_unique<CallPage>(members_));
    return pages_.back().get();
  }
  CallPage* const page = free_.back();
  free_.pop_back();
  page->next = nullptr;
  page->members_finished = 0;
  for (CallPage::Left& left : page->left) left.calls.store(0, std::memory_order_relaxed);
  for (Post& post : page->posts) post.is_posted.store(false, std::memory_order_relaxed);
  for (SharedCall& call : page->calls) {
    call.num_posted_.store(0, std::memory_order_relaxed);
    call.state_.store(SharedCall::gathering, std::memory_order_relaxed);
    call.next_piece_.store(0, std::memory_order_relaxed);
    call.pieces_done_.store(0, std::memory_order_relaxed);
  }
  return page;
}

SharedCall& CallQueue::take(Position& position) {
  SharedCall& call = position.page->calls[position.index];
  if (++position.index == page_calls) {
    // The member moves on before it posts the last call of the page, so that the page is not recycled while it is here.
    const std::lock_guard lock(mutex_);
    if (position.page->next == nullptr) position.page->next = fresh_page();
    position = {position.page->next, 0};
  }
  return call;
}

void CallQueue::leave(SharedCall& call, int64_t member) {
  CallPage& page = *call.page_;
  std::atomic<int64_t>& left = page.left[static_cast<size_t>(member)].calls;
  if (left.fetch_add(1, std::memory_order_acq_rel) + 1 < page_calls) return;
  const std::lock_guard lock(mutex_);
  if (++page.members_finished == members_) free_.push_back(&page);
}

}  // namespace terrace::comm
