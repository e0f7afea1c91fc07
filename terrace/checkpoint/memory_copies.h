// Copies of a run's state in the memory of its nodes, from which the run continues after the loss of a node. Each node
// holds, in a folder on a file system in memory, the files that its own ranks and those of the node before it would
// write into a checkpoint, and the manifest of all. The files outlive the ranks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/memory_place.h"
#include "terrace/checkpoint/saving_ranks.h"
#include "terrace/checkpoint/snapshot.h"
#include "terrace/checkpoint/written_files.h"

namespace terrace::checkpoint {

// The file in the run's folder with the name of the start whose copies count. Copies of another start, or of a run that
// was removed, are never read.
constexpr const char* memory_start_name = ".memory_copies";

class MemorySaver {
 public:
  struct Options {
    std::filesystem::path memory;      // checkpoint.memory_folder
    std::filesystem::path run_folder;  // which all nodes see
    std::string node;  // of this rank, its host's name; ranks of one host that rehearse several nodes add
                       // "@" and the node's number
    // Throws where the state, which lies in host memory, must not be copied.
    std::function<void(const State&)> check = {};
    std::function<void()> before_write = {};  // called by a thread of its own before a copy counts
    comm::Comm* ranks = nullptr;              // all ranks of the run, only for this object; null for a single rank
  };

  // Removes the copies of earlier starts on this node. All ranks construct their savers at the same place and call
  // save(), finish() and remove() the same number of times. Throws UserError on all of them where a node's folder
  // cannot be used.
  explicit MemorySaver(Options options);
  MemorySaver(const MemorySaver&) = delete;

  // Copies the state into the memory of this node and begins to send it to the next one. Where the copy before is still
  // on its way, waits for it. A copy counts when it is whole on all nodes; then the memory of the one before is what
  // the next one is written into, so there is memory for two. One that cannot be made is logged as a warning and
  // counted, and the one before stays. Rethrows an exception of check as a std::runtime_error on all ranks.
  void save(const State& state);

  // Waits until the copies are written, as the destructor does.
  void finish();
  // Removes the copies of this node, which are not needed any more. After finish().
  void remove();

  int64_t nodes() const { return nodes_; }
  int64_t saved_step() const { return saved_step_; }  // of the last copy that is whole, or -1
  int64_t failures() const { return failures_; }      // copies that could not be made

 private:
  void begin_start();
  void copy(const State& state);
  void make_place(int64_t needed_bytes);
  void check_room(int64_t needed_bytes);
  void complete();
  void send_to_next_node(std::map<std::string, FileMemory> files);
  std::string whole_manifest();
  void publish(const std::string& manifest);
  void clear_place(size_t place);
  template <typename Step>
  void on_all(Step&& step) const;
  UserError not_copied(const std::string& why) const;

  Options options_;
  SavingRanks saving_ranks_;
  int64_t nodes_ = 1;
  bool is_leader_ = true;                       // the first rank of its node
  std::vector<int64_t> node_of_;                // by rank
  std::vector<int64_t> receivers_;              // by rank; empty with one node
  std::filesystem::path node_folder_, folder_;  // of the node, and in it of this start
  std::array<MemoryPlace, 2> places_;
  std::array<bool, 2> has_folder_ = {};
  size_t next_place_ = 0;
  Snapshot snapshot_;  // of states on GPUs, which are copied out of it
  State state_;        // of the copy under way; without tensors, except for those in the snapshot
  WrittenFiles own_;   // of this rank in that copy
  std::optional<UserError> refusal_, failure_;  // of this rank's part of it
  std::atomic<int64_t> saved_step_ = -1, failures_ = 0;
  std::future<void> writing_;  // last: its thread uses the members above
};

}  // namespace terrace::checkpoint
