// What ranks tell each other beside their calls, on a communicator of its own: what they last did, that they have
// ended, why the run failed, and that all shall write their last calls. Each rank's progress thread listens, so that
// one whose main thread computes or hangs answers, and one that is dead does not. Used under the engine's lock.
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

// A call that a rank waits in, for others to ask after.
struct Wait {
  uint64_t group_key = 0;
  uint64_t sequence = 0;       // of a collective; 0: a send or receive
  std::vector<int64_t> ranks;  // that it needs, without its own; empty: it does not wait, or needs too many to be named
};

// What a rank last did in a group.
struct Standing {
  uint64_t collectives = 0;  // of the group that it entered
  Wait wait;
  std::string words;  // "its last call is ..."

  // Whether it has come to the call that another waits in.
  bool has_entered(const Wait& other) const { return other.sequence > 0 && collectives >= other.sequence; }
};

class MpiWatch {
 public:
  static constexpr size_t most_waited_for = 64;  // ranks that a standing names

  using Describe = std::function<Standing(uint64_t group_key)>;

  MpiWatch(MpiLibrary& library, Describe describe);  // a collective of all ranks
  ~MpiWatch();
  MpiWatch(const MpiWatch&) = delete;
  MpiWatch& operator=(const MpiWatch&) = delete;

  // Takes what has come and answers questions.
  void poll();

  void ask(const std::vector<int64_t>& ranks, uint64_t group_key);
  std::optional<Standing> answer_of(int64_t rank) const;

  // Tells all other ranks, but `without`, that the run failed.
  void tell_failure(const std::string& reason, std::optional<int64_t> without);
  const std::optional<std::string>& told_failure() const { return told_failure_; }

  // Asks all other ranks for a report of their last calls.
  void ask_for_reports() { send_all(report, "", std::nullopt); }
  int reports_asked() const { return reports_asked_; }  // by others, so far

  // Complete when all ranks have started it.
  void start_barrier(MPI_Request& request);

  void tell_end();
  bool has_ended(int64_t rank) const { return ended_.contains(rank); }

  bool all_sent();  // what was told
  // Nobody listens any more: the communicator is left as it is, and what MPI may still use is kept.
  void abandon();

 private:
  enum Tag { question = 1, answer = 2, failure = 3, end = 4, report = 5 };
  static constexpr size_t longest = 4096;

  void listen();
  void take(int64_t from, int tag, const std::string& text);
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
  MPI_Request listening_ = MPI_REQUEST_NULL;
  struct Letters {
    std::array<char, longest> heard = {};
    std::list<Sent> sent;
  };
  std::shared_ptr<Letters> letters_ = std::make_shared<Letters>();
  uint64_t round_ = 0;  // of questions, so that a late answer to an earlier one is not taken
  std::map<int64_t, Standing> answers_;
  std::optional<std::string> told_failure_;
  std::set<int64_t> ended_;
  int reports_asked_ = 0;
};

}  // namespace terrace::comm
