// The ranks that save together: what they agree on. Without a Comm, or with one member, nothing is sent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/comm/comm.h"

namespace terrace::checkpoint {

class Members {
 public:
  explicit Members(comm::Comm* ranks) : ranks_(ranks != nullptr && ranks->size() > 1 ? ranks : nullptr) {}

  bool alone() const { return ranks_ == nullptr; }
  bool first() const { return alone() || ranks_->member() == 0; }
  int64_t rank() const { return alone() ? 0 : ranks_->group().ranks[static_cast<size_t>(ranks_->member())]; }

  // Each of the following is called by all members at the same place, and throws CommError where one never comes.

  int64_t sum(int64_t own) const;
  int64_t from_first(int64_t value) const;
  void wait_for_all() const;
  // Throws on every member what the first one that has something to throw has; nothing where none has.
  void agree(const std::optional<UserError>& failure) const;
  // On member 0 the texts of all members in their order; elsewhere nothing.
  std::vector<std::string> collect(std::string own) const;

 private:
  comm::Comm* ranks_;
};

}  // namespace terrace::checkpoint
