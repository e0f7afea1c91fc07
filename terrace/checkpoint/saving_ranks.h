// The ranks that save together, and the collectives by which they agree. Without a Comm, or with one member, nothing is
// sent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/comm/comm.h"

namespace terrace::checkpoint {

class SavingRanks {
 public:
  explicit SavingRanks(comm::Comm* ranks) : ranks_(ranks != nullptr && ranks->size() > 1 ? ranks : nullptr) {}

  bool is_single() const { return ranks_ == nullptr; }
  bool is_first() const { return is_single() || ranks_->member() == 0; }
  int64_t rank() const { return is_single() ? 0 : ranks_->group().ranks[static_cast<size_t>(ranks_->member())]; }

  // All members call each of the following at the same place. They throw CommError where a member does not take part.

  int64_t sum(int64_t own) const;
  int64_t broadcast_from_first(int64_t value) const;
  void wait_for_all() const;
  // If any member passes a failure, throws that of the lowest such member on every member.
  void throw_if_any_failed(const std::optional<UserError>& failure) const;
  // Returns the texts of all members in their order on member 0, and nothing on the others.
  std::vector<std::string> gather_texts(std::string own) const;
  // Returns the text of member `from` on every member.
  std::string broadcast_text(std::string own, int64_t from = 0) const;
  // Returns the texts of all members in their order on every member.
  std::vector<std::string> all_texts(std::string own) const;

 private:
  comm::Comm* ranks_;
};

}  // namespace terrace::checkpoint
