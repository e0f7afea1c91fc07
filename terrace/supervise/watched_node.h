// A node of an allocation as its supervisor sees it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "terrace/supervise/child.h"

namespace terrace::supervise {

class WatchedNode {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts the node's keeper. The node counts as lost when the keeper ends, or has given no sign for `silence` seconds,
  // or for `start` seconds after its start.
  WatchedNode(std::string name, const std::vector<std::string>& keeper, double silence, double start);

  const std::string& name() const { return name_; }
  // Takes the signs that have come; call it often.
  void look();
  bool is_lost() const { return !why_lost_.empty(); }
  const std::string& why_lost() const { return why_lost_; }  // "its keeper ended with code 137"
  // When the last sign came, or the keeper was started.
  Clock::time_point last_sign() const { return last_sign_; }
  // Lets the keeper remove the copies in the node's memory and end, and waits for that. Nothing of a node that is lost.
  void release();
  void wait_for_end();

 private:
  std::string name_;
  std::unique_ptr<Child> keeper_;
  double silence_, start_;
  bool has_begun_ = false;
  Clock::time_point last_sign_ = Clock::now();
  std::string why_lost_;
};

}  // namespace terrace::supervise
