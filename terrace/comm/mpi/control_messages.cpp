// Control messages are short texts. A question and its answer begin with the number of the question.
#include "terrace/comm/mpi/control_messages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

namespace terrace::comm {

ControlMessages::ControlMessages(MpiLibrary& library, Describe describe)
    : library_(library), describe_(std::move(describe)) {
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Comm_rank(communicator_, &rank_);
  MPI_Comm_size(communicator_, &size_);
  post_receive();
}

ControlMessages::~ControlMessages() {
  if (communicator_ == MPI_COMM_NULL) return;
  MPI_Cancel(&receive_request_);
  MPI_Wait(&receive_request_, MPI_STATUS_IGNORE);
  for (Sent& sent : buffers_->sent) MPI_Wait(&sent.request, MPI_STATUS_IGNORE);
  library_.retire(communicator_);
}

void ControlMessages::abandon() {
  communicator_ = MPI_COMM_NULL;
  MpiLibrary::keep_for_ever(buffers_);
}

void ControlMessages::post_receive() {
  check_mpi(MPI_Irecv(buffers_->received.data(), static_cast<int>(max_message_bytes), MPI_CHAR, MPI_ANY_SOURCE,
                      MPI_ANY_TAG, communicator_, &receive_request_),
            "MPI_Irecv");
}

void ControlMessages::poll() {
  while (true) {
    int came = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&receive_request_, &came, &status), "MPI_Test");
    if (came == 0) break;
    int length = 0;
    MPI_Get_count(&status, MPI_CHAR, &length);
    const std::string text(buffers_->received.data(), static_cast<size_t>(length));
    post_receive();
    act_on(status.MPI_SOURCE, status.MPI_TAG, text);
  }
  all_sent();
}

void ControlMessages::act_on(int64_t from, int tag, const std::string& text) {
  std::istringstream words(text);
  uint64_t round = 0, number = 0;
  switch (tag) {
    case question: {
      words >> round >> number;
      const RankStatus own = describe_(number);
      send(from, answer,
           std::make_shared<const std::string>(fmt::format("{} {} {} {} {} {} {}", round, own.collectives,
                                                           own.wait.group_key, own.wait.sequence, own.wait.ranks.size(),
                                                           fmt::join(own.wait.ranks, " "), own.description)));
      break;
    }
    case answer: {
      RankStatus status;
      size_t waited_for = 0;
      words >> round >> status.collectives >> status.wait.group_key >> status.wait.sequence >> waited_for;
      if (round != round_) break;
      status.wait.ranks.resize(std::min(waited_for, most_waited_for));
      for (int64_t& rank : status.wait.ranks) words >> rank;
      std::getline(words >> std::ws, status.description);
      answers_[from] = std::move(status);
      break;
    }
    case failure:
      if (!received_failure_) received_failure_ = text;
      break;
    case end:
      ended_.insert(from);
      break;
    case report:
      ++reports_asked_;
      break;
  }
}

void ControlMessages::send_questions(const std::vector<int64_t>& ranks, uint64_t group_key) {
  answers_.clear();
  const auto text = std::make_shared<const std::string>(fmt::format("{} {}", ++round_, group_key));
  for (const int64_t rank : ranks) {
    if (rank != rank_) send(rank, question, text);
  }
}

std::optional<RankStatus> ControlMessages::answer_of(int64_t rank) const {
  const auto found = answers_.find(rank);
  if (found == answers_.end()) return std::nullopt;
  return found->second;
}

void ControlMessages::send_failure(const std::string& reason, std::optional<int64_t> without) {
  send_all(failure, reason, without);
}

void ControlMessages::start_barrier(MPI_Request& request) {
  check_mpi(MPI_Ibarrier(communicator_, &request), "MPI_Ibarrier");
}

void ControlMessages::send_end() { send_all(end, "", std::nullopt); }

void ControlMessages::send_all(Tag tag, const std::string& text, std::optional<int64_t> without) {
  const auto shared = std::make_shared<const std::string>(text);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && rank != without) send(rank, tag, shared);
  }
}

void ControlMessages::send(int64_t to, Tag tag, const std::shared_ptr<const std::string>& text) {
  buffers_->sent.push_back({MPI_REQUEST_NULL, text});
  Sent& sent = buffers_->sent.back();
  const auto length = static_cast<int>(std::min(text->size(), max_message_bytes));
  check_mpi(MPI_Isend(text->data(), length, MPI_CHAR, static_cast<int>(to), tag, communicator_, &sent.request),
            "MPI_Isend");
}

bool ControlMessages::all_sent() {
  for (auto sent = buffers_->sent.begin(); sent != buffers_->sent.end();) {
    int done = 0;
    check_mpi(MPI_Test(&sent->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    sent = done != 0 ? buffers_->sent.erase(sent) : std::next(sent);
  }
  return buffers_->sent.empty();
}

}  // namespace terrace::comm
