// Chooses the algorithm of a call, and the barrier of a group's members before the group has its own communicator.
#include <algorithm>
#include <utility>

#include "terrace/comm/mpi/operation.h"

namespace terrace::comm {
namespace {

bool sums_natively(const MpiChannel& channel, const Call& call) {
  const MpiLimits& limits = channel.choices().limits;
  if (channel.choices().rank_order || channel.size() <= limits.direct_members) return false;
  // MPI's tree, which takes log(n) messages, is faster for short buffers of many members.
  const int64_t part = call.kind == Kind::all_reduce ? call.count / channel.size() : call.count;
  if (part * size_of(call.type) >= limits.direct_part_bytes) return false;
  const int64_t total = call.count * channel.size();
  if (call.kind == Kind::reduce_scatter) {
    // MPI_Ireduce_scatter_block takes neither pieces of blocks nor a result that overlaps the terms.
    const char* const from = static_cast<const char*>(call.from);
    const char* const to = static_cast<const char*>(call.to);
    const bool inside = to >= from && to < from + total * size_of(call.type);
    return !inside && total <= limits.elements_per_call;
  }
  return true;
}

// Each member sends a message to the first one, which answers all when it has heard from the last.
class ArrivalBarrier final : public MpiOperation {
 public:
  ArrivalBarrier(std::shared_ptr<MpiChannel> channel, const Call& call);
  bool advance() override;

 private:
  void send(int64_t rank);
  void receive(int64_t rank);
  MPI_Request* next_request() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  static constexpr int tag = 1;
  std::vector<MPI_Request> requests_;
  bool answered_;
};

ArrivalBarrier::ArrivalBarrier(std::shared_ptr<MpiChannel> to, const Call& c) : MpiOperation(std::move(to), c) {
  const std::vector<int64_t>& ranks = channel().group().ranks;
  const bool first = channel().member() == 0;
  requests_.reserve(ranks.size() + 1);
  answered_ = !first;
  if (!first) {
    send(ranks[0]);
    receive(ranks[0]);
    return;
  }
  for (size_t member = 1; member < ranks.size(); ++member) receive(ranks[member]);
}

bool ArrivalBarrier::advance() {
  if (!test_all(requests_)) return false;
  if (answered_) return true;
  answered_ = true;
  const std::vector<int64_t>& ranks = channel().group().ranks;
  for (size_t member = 1; member < ranks.size(); ++member) send(ranks[member]);
  return test_all(requests_);
}

void ArrivalBarrier::send(int64_t rank) {
  check_mpi(MPI_Isend(nullptr, 0, MPI_CHAR, static_cast<int>(rank), tag, channel().communicator(), next_request()),
            "MPI_Isend");
}

void ArrivalBarrier::receive(int64_t rank) {
  check_mpi(MPI_Irecv(nullptr, 0, MPI_CHAR, static_cast<int>(rank), tag, channel().communicator(), next_request()),
            "MPI_Irecv");
}

}  // namespace

MpiOperationPointer start_unchecked(std::shared_ptr<MpiChannel> channel, const Call& call) {
  if (channel->rings() != nullptr) return start_in_shared_memory(std::move(channel), call);
  const bool sum = call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter;
  if (sum && !sums_natively(*channel, call)) return start_direct_sum(std::move(channel), call);
  if (call.kind == Kind::all_gather && call.gathering == Gathering::doubling) {
    return start_doubling_gather(std::move(channel), call);
  }
  return start_native(std::move(channel), call);
}

MpiOperationPointer start_arrival_barrier(std::shared_ptr<MpiChannel> channel, const Call& call) {
  return std::make_shared<ArrivalBarrier>(std::move(channel), call);
}

}  // namespace terrace::comm
