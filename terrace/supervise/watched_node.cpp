// Judges a node by the lines of its keeper.
#include "terrace/supervise/watched_node.h"

#include <fmt/format.h>

#include <optional>
#include <thread>
#include <utility>

#include "terrace/base/text/units.h"

namespace terrace::supervise {

WatchedNode::WatchedNode(std::string name, const std::vector<std::string>& keeper, double silence, double start)
    : name_(std::move(name)),
      keeper_(std::make_unique<Child>(keeper, Child::Pipes::input_and_output)),
      silence_(silence),
      start_(start) {}

void WatchedNode::look() {
  if (is_lost()) return;
  const auto now = Clock::now();
  if (!keeper_->read_output().empty()) {
    has_begun_ = true;
    last_sign_ = now;
  }
  const double limit = has_begun_ ? silence_ : start_;
  if (const std::optional<int> code = keeper_->ended()) {
    why_lost_ = fmt::format("its keeper ended with code {}", *code);
  } else if (std::chrono::duration<double>(now - last_sign_).count() > limit) {
    why_lost_ = fmt::format("its keeper has given no sign for {}", format_seconds(limit));
  }
  if (is_lost()) keeper_.reset();
}

void WatchedNode::release() {
  if (keeper_) keeper_->close_input();
}

void WatchedNode::wait_for_end() {
  if (!keeper_) return;
  // Memory of hundreds of gigabytes takes seconds to be given back.
  const auto limit = Clock::now() + std::chrono::duration<double>(silence_);
  while (!keeper_->ended() && Clock::now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (!keeper_->ended()) keeper_->end(2);
}

}  // namespace terrace::supervise
