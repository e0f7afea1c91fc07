// Control messages that ranks exchange outside of their calls, on a separate communicator: the status of a rank, the
// end of a rank, the reason of a failure, and requests to write the last calls. Each rank's progress thread receives
// them, so that a rank whose main thread computes or hangs answers and a dead one does not. Used under the engine's
// lock.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "terrace/comm/mpi/library.h"

namespace terrace::comm {

// The call that a rank waits in.
struct Wait {
  uint64_t group_key = 0;
  uint64_t sequence = 0;       // of a collective; 0 for a send or receive
  std::vector<int64_t> ranks;  // the other ranks that it waits for; empty where it does not wait or waits for too many
};

// The last thing that a rank did, as its answer to another rank's question.
struct RankStatus {
  uint64_t collectives = 0;  // that it has entered in the group of the question
  Wait wait;
  std::string description;  // "its last call is ..."

  // Whether the rank has entered the collective that another rank waits in.
  bool has_entered(const Wait& other) const { return other.sequence > 0 && collectives >= other.sequence; }
};

class ControlMessages {
 public:
  static constexpr size_t most_waited_for = 64;  // ranks that Wait::ranks can hold

  using Describe = std::function<RankStatus(uint64_t group_key)>;

  ControlMessages(MpiLibrary& library, Describe describe);  // a collective of all ranks
  ~ControlMessages();
  ControlMessages(const ControlMessages&) = delete;
  ControlMessages& operator=(const ControlMessages&) = delete;

  // Receives the messages that have arrived and answers questions.
  void poll();

  void send_questions(const std::vector<int64_t>& ranks, uint64_t group_key);
  std::optional<RankStatus> answer_of(int64_t rank) const;

  // Sends the reason of a failure to all other ranks but `without`.
  void send_failure(const std::string& reason, std::optional<int64_t> without);
  const std::optional<std::string>& received_failure() const { return received_failure_; }

  // Asks all other ranks for a report of their last calls.
  void ask_for_reports() { send_all(report, "", std::nullopt); }
  int reports_asked() const { return reports_asked_; }  // by other ranks, so far

  // Complete when all ranks have started it.
  void start_barrier(MPI_Request& request);

  void send_end();
  bool has_ended(int64_t rank) const { return ended_.contains(rank); }

  bool all_sent();  // whether all messages have left
  // Called after a failure: leaves the communicator as it is and keeps the memory that MPI may still use.
  void abandon();

 private:
  enum Tag { question = 1, answer = 2, failure = 3, end = 4, report = 5 };
  static constexpr size_t max_message_bytes = 4096;

  void post_receive();
  void act_on(int64_t from, int tag, const std::string& text);
  void send(int64_t to, Tag tag, const std::shared_ptr<const std::string>& text);
  void send_all(Tag tag, const std::string& text, std::optional<int64_t> without);

  struct Sent {
    MPI_Request request;
    std::shared_ptr<const std::string> text;
  };

  MpiLibrary& library_;
  Describe describe_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 0;
  MPI_Request receive_request_ = MPI_REQUEST_NULL;
  struct Buffers {
    std::array<char, max_message_bytes> received = {};
    std::list<Sent> sent;
  };
  std::shared_ptr<Buffers> buffers_ = std::make_shared<Buffers>();
  uint64_t round_ = 0;  // the number of the last question; late answers to earlier ones are dropped
  std::map<int64_t, RankStatus> answers_;
  std::optional<std::string> received_failure_;
  std::set<int64_t> ended_;
  int reports_asked_ = 0;
};

}  // namespace terrace::comm
