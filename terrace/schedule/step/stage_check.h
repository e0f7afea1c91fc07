// Checks the list of one stage alone, instruction by instruction.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "terrace/schedule/pipeline/live.h"
#include "terrace/schedule/pipeline/message.h"

namespace terrace::schedule {

class StageCheck {
 public:
  StageCheck(const Placement& placement, int64_t stage, int64_t micro_batches, const Live& bound);

  // Why the next instruction of the list is invalid; "" if it is valid.
  std::string next(const Instruction& instruction);
  bool stepped() const { return stepped_; }

 private:
  // The numbers of micro-batches that are done; these are the micro-batches 0 .. n - 1, since each kind comes in
  // ascending order.
  struct Done {
    int64_t forwards = 0, input_gradients = 0, weight_gradients = 0;
  };

  std::string computation(const Instruction& instruction);
  std::string take(const Instruction& instruction);
  std::string send(const Instruction& instruction);
  std::string receive(const Instruction& instruction);
  std::string step(const Instruction& instruction);
  std::string within_bound() const;
  bool is_made(const Message& message) const;  // by a virtual stage of this stage
  Done& done(int64_t chunk) { return done_[static_cast<size_t>(chunk)]; }

  Placement placement_;
  int64_t stage_, micro_batches_;
  Live bound_, live_;
  std::vector<Done> done_;  // by chunk
  std::set<Message> posted_, sent_;
  bool stepped_ = false;
};

}  // namespace terrace::schedule
