// The workers of a search: processes that work on the trials of one folder, on one host or on several that share the
// file system. They take turns under a lock: in its turn a worker reads what the others have begun and finished, and
// says what it begins or has finished itself. A worker is known by a file whose modification time is its heartbeat.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "terrace/base/files/file_lock.h"
#include "terrace/base/files/owner_file.h"
#include "terrace/search/results.h"
#include "terrace/search/session.h"

namespace terrace::search {

class Workers {
 public:
  // Makes this process a worker of the folder, which is created where it is missing. Throws UserError as Results does;
  // if another worker is there and `joins` is false; and if that worker's study is another one. The study outlives
  // this.
  Workers(const std::filesystem::path& folder, const Study& study, bool joins);
  Workers(const Workers&) = delete;
  // Leaves, so that the other workers take over what this one has begun and not finished.
  ~Workers();

  // The trials that the folder had at the start, and whether another worker was there.
  const std::vector<Trial>& earlier() const { return results_->earlier(); }
  bool found_others() const { return found_others_; }
  // Seconds since the search began. A search that goes on began as long ago as its last trial says.
  double seconds() const;

  // No other worker has its turn while the returned object lives. Throws UserError if another one keeps its turn for
  // ten minutes.
  using Turn = std::unique_ptr<FileLock>;
  [[nodiscard]] Turn take_turn();

  // All of the following need the turn.
  //
  // The trials that other workers have finished, and the jobs that they have begun, since the last call.
  std::vector<Trial> take_finished();
  std::vector<TrialJob> take_begun();
  // The number of a new job.
  int64_t next_job() const { return session_.next_job(); }
  // This worker begins the job.
  void begin(const TrialJob& job);
  // Begins what a worker that has left or died did not finish, with a new number; none if there is nothing.
  std::optional<TrialJob> take_over();
  // Whether the job is this worker's. It is not if the others took this worker for dead.
  bool has(int64_t job) const { return own_.contains(job); }
  void finish(const Trial& trial);
  // Leaves. Returns whether no other worker is left.
  bool leave();

  // The state at the last turn: the number of workers, this one included until it leaves; the new trials that others
  // have under way; whether others have anything under way; and whether they have this point under way.
  size_t count() const { return session_.workers().size(); }
  int64_t trials_elsewhere() const;
  bool is_working_elsewhere() const;
  bool is_begun_elsewhere(const Point& point) const;

  void sync() const { results_->sync(); }

 private:
  using Clock = std::chrono::steady_clock;

  Turn lock() const;
  void enter(bool joins);
  void join();
  void remove_dead();
  std::vector<std::string> others() const;
  void check_same_study() const;
  bool is_elsewhere(const Claim& claim) const;

  std::filesystem::path folder_;
  const Study& study_;
  Session session_;
  std::optional<Results> results_;
  std::string name_;
  std::unique_ptr<OwnerFile> heartbeat_;
  bool found_others_ = false;
  double before_ = 0;  // seconds of the search when this worker began
  Clock::time_point began_, looked_for_dead_;
  std::set<int64_t> own_, told_;  // jobs under way here; jobs of others that take_begun() has returned
  std::vector<Trial> finished_;   // trials of others, for take_finished()
};

}  // namespace terrace::search
