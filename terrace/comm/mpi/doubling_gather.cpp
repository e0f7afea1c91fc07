// An all-gather by doubling: each step's messages are sent when those of the step before have arrived.
#include <algorithm>
#include <cstring>
#include <utility>

#include "terrace/comm/doubling.h"
#include "terrace/comm/mpi/operation.h"

namespace terrace::comm {
namespace {

class DoublingGather final : public MpiOperation {
 public:
  DoublingGather(std::shared_ptr<MpiChannel> channel, const Call& call);
  bool advance() override;

 private:
  char* block(int64_t number) const {
    return static_cast<char*>(call().to) + number * call().count * size_of(call().type);
  }
  void post(const DoublingStep& step);

  std::vector<DoublingStep> steps_;
  size_t posted_ = 0;
  std::vector<MPI_Request> requests_;
};

DoublingGather::DoublingGather(std::shared_ptr<MpiChannel> on, const Call& c)
    : MpiOperation(std::move(on), c), steps_(doubling_steps(channel().size(), channel().member())) {}

bool DoublingGather::advance() {
  char* const own = block(channel().member());
  if (posted_ == 0 && call().from != own && call().count > 0) {
    std::memcpy(own, call().from, static_cast<size_t>(call().count * size_of(call().type)));
  }
  while (test_all(requests_)) {
    if (posted_ == steps_.size()) return true;
    post(steps_[posted_++]);
  }
  return false;
}

void DoublingGather::post(const DoublingStep& step) {
  const int64_t longest = channel().choices().limits.elements_per_call;
  const MPI_Datatype type = channel().library().type_of(call().type);
  const int tag = tag_of(call(), TagUse::terms);
  // Calls body(data, elements) for each piece of the runs whose number of elements fits MPI's int.
  const auto for_pieces = [&](const std::vector<BlockRun>& runs, const auto& body) {
    for (const BlockRun& run : runs) {
      const int64_t elements = run.count * call().count;
      for (int64_t begin = 0; begin < elements; begin += longest) {
        body(block(run.begin) + begin * size_of(call().type), static_cast<int>(std::min(longest, elements - begin)));
      }
    }
  };
  for_pieces(step.received, [&](char* data, int elements) {
    check_mpi(MPI_Irecv(data, elements, type, static_cast<int>(step.from), tag, channel().communicator(),
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv");
  });
  for_pieces(step.sent, [&](const char* data, int elements) {
    check_mpi(MPI_Isend(data, elements, type, static_cast<int>(step.to), tag, channel().communicator(),
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend");
  });
}

}  // namespace

MpiOperationPointer start_doubling_gather(std::shared_ptr<MpiChannel> channel, const Call& call) {
  return std::make_shared<DoublingGather>(std::move(channel), call);
}

}  // namespace terrace::comm
