// Makes the sums and gathers of operations by calls of a communicator.
#include "terrace/parallel/comm_ranks.h"

#include <utility>

#include "terrace/parallel/transfer.h"

namespace terrace::parallel {
namespace {

class PendingTransfer : public ops::Ranks::Pending {
 public:
  explicit PendingTransfer(Transfer transfer) : transfer_(std::move(transfer)) {}
  void wait() override { transfer_.finish(); }

 private:
  Transfer transfer_;
};

std::unique_ptr<ops::Ranks::Pending> pending(Transfer transfer) {
  return std::make_unique<PendingTransfer>(std::move(transfer));
}

}  // namespace

std::unique_ptr<ops::Ranks::Pending> CommRanks::sum(const at::Tensor& data, const char* what) {
  return pending(Transfer::all_reduce(group_, data, data.scalar_type(), {.what = what}));
}

std::unique_ptr<ops::Ranks::Pending> CommRanks::sum_scatter(const at::Tensor& from, const at::Tensor& to,
                                                            const char* what) {
  return pending(Transfer::reduce_scatter(group_, from, to, to.scalar_type(), {.what = what}));
}

std::unique_ptr<ops::Ranks::Pending> CommRanks::gather(const at::Tensor& own, const at::Tensor& whole,
                                                       const char* what) {
  return pending(Transfer::all_gather(group_, own, whole, whole.scalar_type(), {.what = what}));
}

}  // namespace terrace::parallel
