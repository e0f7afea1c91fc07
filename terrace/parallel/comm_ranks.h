// The ranks of an operation (ops/cut.h) as the members of a communicator.
#pragma once

#include <memory>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/ops/cut.h"

namespace terrace::parallel {

// The group outlives the object.
class CommRanks : public ops::MovingRanks {
 public:
  explicit CommRanks(comm::Comm& group) : group_(group) {}

  int64_t size() const override { return group_.size(); }
  int64_t member() const override { return group_.member(); }
  std::unique_ptr<Pending> sum(const at::Tensor& data, const char* what) override;
  std::unique_ptr<Pending> sum_scatter(const at::Tensor& from, const at::Tensor& to, const char* what) override;
  std::unique_ptr<Pending> gather(const at::Tensor& own, const at::Tensor& whole, const char* what) override;
  std::unique_ptr<Pending> exchange(const at::Tensor& from, const at::Tensor& to, const char* what) override;
  std::unique_ptr<Pending> shift(const at::Tensor& own, const at::Tensor& to, int64_t distance,
                                 const char* what) override;
  std::unique_ptr<Pending> exchange_rows(const at::Tensor& from, const std::vector<int64_t>& sent, const at::Tensor& to,
                                         const std::vector<int64_t>& received, const char* what) override;

 private:
  comm::Comm& group_;
};

}  // namespace terrace::parallel
