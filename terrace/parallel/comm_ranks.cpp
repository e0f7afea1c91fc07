// Makes the sums and gathers of operations by calls of a communicator.
#include "terrace/parallel/comm_ranks.h"

#include <ATen/core/grad_mode.h>

#include <array>
#include <memory>
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

// A send and a receive, with the tensors that they read and write.
class PendingShift : public ops::Ranks::Pending {
 public:
  PendingShift(comm::Comm& group, const at::Tensor& own, const at::Tensor& to, int64_t distance, const char* what)
      : owner_(std::make_shared<const std::array<at::Tensor, 2>>(std::array{own, to})) {
    const int64_t size = group.size(), forward = (distance % size + size) % size;
    const int64_t next = (group.member() + forward) % size, before = (group.member() + size - forward) % size;
    const comm::Type type = comm_type(own.scalar_type());
    received_ = group.receive(to.mutable_data_ptr(), to.numel(), type, before, {.what = what}, owner_);
    sent_ = group.send(own.const_data_ptr(), own.numel(), type, next, {.what = what}, owner_);
  }
  ~PendingShift() override { PendingShift::wait(); }
  void wait() override {
    received_.wait();
    sent_.wait();
  }

 private:
  comm::Owner owner_;  // before the works, which it outlives
  comm::Work received_, sent_;
};

// The rows of each member, of which the rank's own are copied at once.
class PendingRows : public ops::Ranks::Pending {
 public:
  PendingRows(comm::Comm& group, const at::Tensor& from, const std::vector<int64_t>& sent, const at::Tensor& to,
              const std::vector<int64_t>& received, const char* what)
      : owner_(std::make_shared<const std::array<at::Tensor, 2>>(std::array{from, to})) {
    const comm::Type type = comm_type(from.scalar_type());
    const std::vector<at::Tensor> parts_from = from.split_with_sizes(sent), parts_to = to.split_with_sizes(received);
    const int64_t size = group.size(), own = group.member();
    {
      const at::NoGradGuard no_grad;
      parts_to.at(static_cast<size_t>(own)).copy_(parts_from.at(static_cast<size_t>(own)));
    }
    for (int64_t distance = 1; distance < size; ++distance) {
      const int64_t next = (own + distance) % size, before = (own + size - distance) % size;
      const at::Tensor &going = parts_from.at(static_cast<size_t>(next)),
                       &coming = parts_to.at(static_cast<size_t>(before));
      if (coming.numel() > 0) {
        works_.push_back(
            group.receive(coming.mutable_data_ptr(), coming.numel(), type, before, {.what = what}, owner_));
      }
      if (going.numel() > 0) {
        works_.push_back(group.send(going.const_data_ptr(), going.numel(), type, next, {.what = what}, owner_));
      }
    }
  }
  ~PendingRows() override { PendingRows::wait(); }
  void wait() override {
    for (comm::Work& work : works_) work.wait();
  }

 private:
  comm::Owner owner_;  // before the works, which it outlives
  std::vector<comm::Work> works_;
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

std::unique_ptr<ops::Ranks::Pending> CommRanks::exchange(const at::Tensor& from, const at::Tensor& to,
                                                         const char* what) {
  return pending(Transfer::all_to_all(group_, from, to, {.what = what}));
}

std::unique_ptr<ops::Ranks::Pending> CommRanks::exchange_rows(const at::Tensor& from, const std::vector<int64_t>& sent,
                                                              const at::Tensor& to,
                                                              const std::vector<int64_t>& received, const char* what) {
  return std::make_unique<PendingRows>(group_, from, sent, to, received, what);
}

std::unique_ptr<ops::Ranks::Pending> CommRanks::shift(const at::Tensor& own, const at::Tensor& to, int64_t distance,
                                                      const char* what) {
  return std::make_unique<PendingShift>(group_, own, to, distance, what);
}

}  // namespace terrace::parallel
