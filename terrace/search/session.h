// claims.jsonl in a search's folder: which workers the search has, and which trials each has begun. Its first line
// names the session, which begins when a worker finds no other one; each other line is what a worker has done.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/search/evaluate.h"
#include "terrace/search/shared_file.h"
#include "terrace/search/study/study.h"

namespace terrace::search {

struct Worker {
  std::string host;
  int64_t process_id = 0;
};

// A job that a worker has begun.
struct Claim {
  TrialJob job = {};
  std::string worker = {};
};

// All functions that read or write need the lock of the search.
class Session {
 public:
  // The study outlives the session.
  Session(const std::filesystem::path& folder, const Study& study);

  // Reads what the file has now. Returns whether it still is the session that was read before, or the first one.
  // Throws UserError if a line is damaged.
  bool read_new();
  // Begins a session in place of the one in the file.
  void begin(double began);
  // Forgets all that was read, so that read_new() reads the session that the file has now.
  void forget();
  bool exists() const { return !id_.empty(); }

  void add_worker(const std::string& name, const Worker& worker);
  // `reason` follows "the worker", as in "has died".
  void remove_worker(const std::string& name, const std::string& reason);
  // `instead_of` is a job that this one replaces, or -1.
  void add_claim(const Claim& claim, int64_t instead_of = -1);
  // The job's row is in results.csv.
  void finish(int64_t job);

  // The workers that have not left.
  const std::map<std::string, Worker>& workers() const { return workers_; }
  // Jobs without a row in results.csv, of workers that have left too.
  const std::map<int64_t, Claim>& open_claims() const { return open_claims_; }
  int64_t next_job() const { return next_job_; }
  // The time when the search began, in seconds since 1970, and what it looks for.
  double began() const { return began_; }
  const std::vector<std::string>& identity() const { return identity_; }

 private:
  void add(const Json& line);
  void apply(const Json& line);

  SharedFile file_;
  const Study& study_;
  std::string id_;
  double began_ = 0;
  std::vector<std::string> identity_;
  std::map<std::string, Worker> workers_;
  std::map<int64_t, Claim> open_claims_;
  std::set<int64_t> finished_;
  int64_t next_job_ = 0;
};

}  // namespace terrace::search
