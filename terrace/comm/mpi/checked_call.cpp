// A collective that first compares what its members ask for: each sends all others a card that says it.
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

// Words that are the same where the calls are.
using Card = std::array<char, 256>;

Card card_of(const mesh::Group& group, const Call& call) {
  const std::string words = with_contents(group, call);
  Card card = {};
  std::memcpy(card.data(), words.data(), std::min(words.size(), card.size() - 1));
  return card;
}

class CheckedOperation final : public MpiOperation {
 public:
  CheckedOperation(std::shared_ptr<MpiChannel> channel, const Call& call, bool compares_only)
      : MpiOperation(channel, call),
        own_channel_(std::move(channel)),
        compares_only_(compares_only),
        cards_(static_cast<size_t>(this->channel().size())) {}

  bool advance() override;

 private:
  void exchange();
  void compare() const;

  std::shared_ptr<MpiChannel> own_channel_;
  const bool compares_only_;
  std::vector<MPI_Request> requests_;
  std::vector<Card> cards_;  // by member
  bool exchanges_ = false, alike_ = false;
  MpiOperationPointer started_;
};

void CheckedOperation::exchange() {
  Card& own = cards_[static_cast<size_t>(channel().member())];
  own = card_of(channel().group(), call());
  const int tag = tag_of(call(), TagUse::check);
  for (int64_t member = 0; member < channel().size(); ++member) {
    if (member == channel().member()) continue;
    Card& theirs = cards_[static_cast<size_t>(member)];
    check_mpi(MPI_Irecv(theirs.data(), sizeof(Card), MPI_CHAR, static_cast<int>(member), tag, channel().communicator(),
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv");
    check_mpi(MPI_Isend(own.data(), sizeof(Card), MPI_CHAR, static_cast<int>(member), tag, channel().communicator(),
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend");
  }
}

void CheckedOperation::compare() const {
  for (size_t member = 1; member < cards_.size(); ++member) {
    if (cards_[member] == cards_[0]) continue;
    throw CommError(fmt::format("ranks disagree on a call: rank {} makes {}, rank {} makes {}",
                                channel().group().ranks[0], cards_[0].data(), channel().group().ranks[member],
                                cards_[member].data()));
  }
}

bool CheckedOperation::advance() {
  if (!std::exchange(exchanges_, true)) exchange();
  if (!alike_) {
    if (!test_all(requests_)) return false;
    compare();
    alike_ = true;
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
