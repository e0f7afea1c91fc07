// The processes that prepare a dataset together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace terrace::data {

// The interface of one process to all that prepare the same dataset, with the same arguments, on one file system. By
// itself it is that of a process that prepares alone.
class PrepareRanks {
 public:
  virtual ~PrepareRanks() = default;
  virtual int64_t rank() const { return 0; }
  virtual int64_t size() const { return 1; }
  virtual int64_t cores() const;  // for this process, of those of its machine
  // Returns the bytes of every rank, by rank. All ranks call gather() in the same place of their programs, and wait.
  virtual std::vector<std::string> gather(const std::string& own) { return {own}; }

  bool is_first() const { return rank() == 0; }
};

// Runs each rank's part. If it throws on any rank, all ranks throw UserError, the first one with every problem and the
// others without text.
void on_all_ranks(PrepareRanks& ranks, const std::function<void()>& part);

}  // namespace terrace::data
