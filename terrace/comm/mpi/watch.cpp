// Messages of the watch: short texts, the first word of a question and of its answer being its round.
#include "terrace/comm/mpi/watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

namespace terrace::comm {

MpiWatch::MpiWatch(MpiLibrary& library, Describe describe) : library_(library), describe_(std::move(describe)) {
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Comm_rank(communicator_, &rank_);
  MPI_Comm_size(communicator_, &size_);
  listen();
}

MpiWatch::~MpiWatch() {
  if (communicator_ == MPI_COMM_NULL) return;
  MPI_Cancel(&listening_);
  MPI_Wait(&listening_, MPI_STATUS_IGNORE);
  for (Sent& sent : letters_->sent) MPI_Wait(&sent.request, MPI_STATUS_IGNORE);
  library_.retire(communicator_);
}

void MpiWatch::abandon() {
  communicator_ = MPI_COMM_NULL;
  MpiLibrary::keep_for_ever(letters_);
}

void MpiWatch::listen() {
  check_mpi(MPI_Irecv(letters_->heard.data(), static_cast<int>(longest), MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG,
                      communicator_, &listening_),
            "MPI_Irecv");
}

void MpiWatch::poll() {
  while (true) {
    int came = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&listening_, &came, &status), "MPI_Test");
    if (came == 0) break;
    int length = 0;
    MPI_Get_count(&status, MPI_CHAR, &length);
    const std::string text(letters_->heard.data(), static_cast<size_t>(length));
    listen();
    take(status.MPI_SOURCE, status.MPI_TAG, text);
  }
  all_sent();
}

void MpiWatch::take(int64_t from, int tag, const std::string& text) {
  std::istringstream words(text);
  uint64_t round = 0, number = 0;
  switch (tag) {
    case question: {
      words >> round >> number;
      const Standing own = describe_(number);
      send(from, answer,
           std::make_shared<const std::string>(fmt::format("{} {} {} {} {} {} {}", round, own.collectives,
                                                           own.wait.group_key, own.wait.sequence, own.wait.ranks.size(),
                                                           fmt::join(own.wait.ranks, " "), own.words)));
      break;
    }
    case answer: {
      Standing standing;
      size_t waited_for = 0;
      words >> round >> standing.collectives >> standing.wait.group_key >> standing.wait.sequence >> waited_for;
      if (round != round_) break;
      standing.wait.ranks.resize(std::min(waited_for, most_waited_for));
      for (int64_t& rank : standing.wait.ranks) words >> rank;
      std::getline(words >> std::ws, standing.words);
      answers_[from] = std::move(standing);
      break;
    }
    case failure:
      if (!told_failure_) told_failure_ = text;
      break;
    case end:
      ended_.insert(from);
      break;
    case report:
      ++reports_asked_;
      break;
  }
}

void MpiWatch::ask(const std::vector<int64_t>& ranks, uint64_t group_key) {
  answers_.clear();
  const auto text = std::make_shared<const std::string>(fmt::format("{} {}", ++round_, group_key));
  for (const int64_t rank : ranks) {
    if (rank != rank_) send(rank, question, text);
  }
}

std::optional<Standing> MpiWatch::answer_of(int64_t rank) const {
  const auto found = answers_.find(rank);
  if (found == answers_.end()) return std::nullopt;
  return found->second;
}

void MpiWatch::tell_failure(const std::string& reason, std::optional<int64_t> without) {
  send_all(failure, reason, without);
}

void MpiWatch::start_barrier(MPI_Request& request) { check_mpi(MPI_Ibarrier(communicator_, &request), "MPI_Ibarrier"); }

void MpiWatch::tell_end() { send_all(end, "", std::nullopt); }

void MpiWatch::send_all(Tag tag, const std::string& text, std::optional<int64_t> without) {
  const auto shared = std::make_shared<const std::string>(text);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && rank != without) send(rank, tag, shared);
  }
}

void MpiWatch::send(int64_t to, Tag tag, const std::shared_ptr<const std::string>& text) {
  letters_->sent.push_back({MPI_REQUEST_NULL, text});
  Sent& sent = letters_->sent.back();
  const auto length = static_cast<int>(std::min(text->size(), longest));
  check_mpi(MPI_Isend(text->data(), length, MPI_CHAR, static_cast<int>(to), tag, communicator_, &sent.request),
            "MPI_Isend");
}

bool MpiWatch::all_sent() {
  for (auto sent = letters_->sent.begin(); sent != letters_->sent.end();) {
    int done = 0;
    check_mpi(MPI_Test(&sent->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    sent = done != 0 ? letters_->sent.erase(sent) : std::next(sent);
  }
  return letters_->sent.empty();
}

}  // namespace terrace::comm
