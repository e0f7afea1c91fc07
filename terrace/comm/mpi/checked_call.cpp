// A collective whose members first exchange a description of their calls and compare them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "terrace/comm/describe_call.h"
#include "terrace/comm/mpi/operation.h"

namespace terrace::comm {
namespace {

// A description that is equal on two members exactly where their calls agree.
using CallText = std::array<char, 256>;

CallText call_text(const mesh::Group& group, const Call& call) {
  const std::string words = with_contents(group, call);
  CallText text = {};
  std::memcpy(text.data(), words.data(), std::min(words.size(), text.size() - 1));
  return text;
}

class CheckedOperation final : public MpiOperation {
 public:
  CheckedOperation(std::shared_ptr<MpiChannel> channel, const Call& call, bool compares_only)
      : MpiOperation(channel, call),
        own_channel_(std::move(channel)),
        compares_only_(compares_only),
        texts_(static_cast<size_t>(this->channel().size())) {}

  bool advance() override;

 private:
  void exchange();
  void compare() const;

  std::shared_ptr<MpiChannel> own_channel_;
  const bool compares_only_;
  std::vector<MPI_Request> requests_;
  std::vector<CallText> texts_;  // by member
  bool exchanging_ = false, agree_ = false;
  MpiOperationPointer started_;
};

void CheckedOperation::exchange() {
  CallText& own = texts_[static_cast<size_t>(channel().member())];
  own = call_text(channel().group(), call());
  const int tag = tag_of(call(), TagUse::check);
  for (int64_t member = 0; member < channel().size(); ++member) {
    if (member == channel().member()) continue;
    CallText& theirs = texts_[static_cast<size_t>(member)];
    check_mpi(MPI_Irecv(theirs.data(), sizeof(CallText), MPI_CHAR, static_cast<int>(member), tag,
                        channel().communicator(), &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv");
    check_mpi(MPI_Isend(own.data(), sizeof(CallText), MPI_CHAR, static_cast<int>(member), tag, channel().communicator(),
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend");
  }
}

void CheckedOperation::compare() const {
  for (size_t member = 1; member < texts_.size(); ++member) {
    if (texts_[member] == texts_[0]) continue;
    throw CommError(fmt::format("ranks disagree on a call: rank {} makes {}, rank {} makes {}",
                                channel().group().ranks[0], texts_[0].data(), channel().group().ranks[member],
                                texts_[member].data()));
  }
}

bool CheckedOperation::advance() {
  if (!std::exchange(exchanging_, true)) exchange();
  if (!agree_) {
    if (!test_all(requests_)) return false;
    compare();
    agree_ = true;
  }
  if (!started_) {
    if (own_channel_->started_collectives + 1 != call().sequence) return false;
    ++own_channel_->started_collectives;
    if (compares_only_) return true;
    started_ = start_unchecked(own_channel_, call());
  }
  return started_->advance();
}

}  // namespace

MpiOperationPointer start_checked(std::shared_ptr<MpiChannel> channel, const Call& call) {
  return std::make_shared<CheckedOperation>(std::move(channel), call, false);
}

MpiOperationPointer start_comparison(std::shared_ptr<MpiChannel> channel, const Call& call) {
  return std::make_shared<CheckedOperation>(std::move(channel), call, true);
}

}  // namespace terrace::comm
