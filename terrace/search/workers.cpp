// Keeps the session, the results and the heartbeat of a worker in step.
#include "terrace/search/workers.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/terminal/log.h"
#include "terrace/search/study/study_record.h"

namespace terrace::search {
namespace {

constexpr auto patience = std::chrono::minutes(10);
constexpr auto look_for_dead_every = std::chrono::seconds(5);

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::filesystem::path folder_of_heartbeats(const std::filesystem::path& folder) { return folder / "workers"; }

}  // namespace

Workers::Workers(const std::filesystem::path& folder, const Study& study, bool joins)
    : folder_(folder), study_(study), session_(folder, study) {
  std::filesystem::create_directories(folder);
  const Turn turn = lock();
  enter(joins);
}

Workers::~Workers() {
  if (!heartbeat_) return;
  try {
    const Turn turn = lock();
    leave();
  } catch (const std::exception& error) {
    log_warning("the search in {} was not left in order: {}", folder_.string(), error.what());
  }
}

Workers::Turn Workers::lock() const {
  return std::make_unique<FileLock>(
      folder_ / "search.lock",
      fmt::format("another search has held {} for more than {} minutes; stop it, or use another --output",
                  (folder_ / "search.lock").string(), patience.count()),
      patience);
}

// The lock is held.
void Workers::enter(bool joins) {
  session_.forget();
  session_.read_new();
  remove_dead();
  found_others_ = !session_.workers().empty();
  if (found_others_ && !joins) {
    const Worker& one = session_.workers().begin()->second;
    throw UserError::of(
        "another search works in {} (process {} on {}); wait for its end, use another --output, or work on it together "
        "with --join",
        folder_.string(), one.process_id, one.host);
  }
  if (found_others_) check_same_study();
  if (results_) {
    before_ = seconds();
  } else {
    results_.emplace(folder_, study_);
    for (const Trial& trial : earlier()) session_.finish(trial.job_id);
    before_ = earlier().empty() ? 0 : earlier().back().gathered;
  }
  began_ = Clock::now();
  if (found_others_) {
    before_ = std::max(0.0, now() - session_.began());
  } else {
    session_.begin(now() - before_);
  }
  join();
}

void Workers::check_same_study() const {
  const std::vector<std::string> own = identity_of(study_), theirs = session_.identity();
  const auto [here, there] = std::ranges::mismatch(own, theirs);
  if (here == own.end() && there == theirs.end()) return;
  throw UserError::of(
      "--join works on the search that is under way in {}, which has '{}' where this one has '{}'; start it with the "
      "same file and --method, or use another --output",
      folder_.string(), there == theirs.end() ? "nothing" : *there, here == own.end() ? "nothing" : *here);
}

void Workers::join() {
  name_ = unique_process_name();
  std::filesystem::create_directories(folder_of_heartbeats(folder_));
  heartbeat_ =
      std::make_unique<OwnerFile>(folder_of_heartbeats(folder_) / name_, "another worker has the name " + name_);
  session_.add_worker(name_, {host_name(), ::getpid()});
}

double Workers::seconds() const { return before_ + std::chrono::duration<double>(Clock::now() - began_).count(); }

std::vector<std::string> Workers::others() const {
  std::vector<std::string> names;
  for (const auto& [name, worker] : session_.workers()) {
    if (name != name_) names.push_back(name);
  }
  return names;
}

void Workers::remove_dead() {
  looked_for_dead_ = Clock::now();
  for (const std::string& name : others()) {
    const std::filesystem::path heartbeat = folder_of_heartbeats(folder_) / name;
    const std::string reason = death_of_owner(heartbeat);
    if (reason.empty()) continue;
    const Worker worker = session_.workers().at(name);
    log_info("process {} on {}, which worked on this search, {}", worker.process_id, worker.host, reason);
    session_.remove_worker(name, reason);
    std::error_code ignored;
    std::filesystem::remove(heartbeat, ignored);
  }
}

Workers::Turn Workers::take_turn() {
  Turn turn = lock();
  const bool is_same = session_.read_new();
  if (!is_same || !session_.workers().contains(name_)) {
    log_warning(
        "the heartbeat of this worker stopped, and the other workers took it for dead: it begins again, and the "
        "trials that it has under way do not count");
    own_.clear();
    heartbeat_.reset();
    name_.clear();
    if (is_same) {
      join();
    } else {
      enter(true);
    }
  }
  for (Trial& trial : results_->read_new()) {
    session_.finish(trial.job_id);
    finished_.push_back(std::move(trial));
  }
  if (Clock::now() - looked_for_dead_ >= look_for_dead_every) remove_dead();
  return turn;
}

std::vector<Trial> Workers::take_finished() { return std::exchange(finished_, {}); }

bool Workers::is_elsewhere(const Claim& claim) const {
  return claim.worker != name_ && session_.workers().contains(claim.worker);
}

std::vector<TrialJob> Workers::take_begun() {
  std::vector<TrialJob> jobs;
  for (const auto& [id, claim] : session_.open_claims()) {
    if (claim.worker != name_ && told_.insert(id).second) jobs.push_back(claim.job);
  }
  return jobs;
}

void Workers::begin(const TrialJob& job) {
  session_.add_claim({job, name_});
  own_.insert(job.id);
}

std::optional<TrialJob> Workers::take_over() {
  for (const auto& [id, claim] : session_.open_claims()) {
    if (session_.workers().contains(claim.worker)) continue;
    TrialJob job = claim.job;
    // A job that is begun again has a folder of its own: processes of the dead worker may still write into the old one.
    job.id = next_job();
    if (!claim.job.continues()) job.trial = job.id;
    session_.add_claim({job, name_}, id);
    own_.insert(job.id);
    return job;
  }
  return std::nullopt;
}

void Workers::finish(const Trial& trial) {
  results_->add(trial);
  session_.finish(trial.job_id);
  own_.erase(trial.job_id);
}

bool Workers::leave() {
  const bool is_member = session_.read_new() && session_.workers().contains(name_);
  heartbeat_.reset();
  if (!is_member) return false;
  session_.remove_worker(name_, "has left");
  remove_dead();
  if (!session_.workers().empty()) return false;
  std::error_code ignored;
  std::filesystem::remove(folder_ / "claims.jsonl", ignored);
  std::filesystem::remove(folder_of_heartbeats(folder_), ignored);
  return true;
}

int64_t Workers::trials_elsewhere() const {
  return std::ranges::count_if(session_.open_claims(), [this](const auto& one) {
    return is_elsewhere(one.second) && !one.second.job.continues();
  });
}

bool Workers::is_begun_elsewhere(const Point& point) const {
  return std::ranges::any_of(session_.open_claims(), [&](const auto& one) {
    return one.second.worker != name_ && one.second.job.point == point;
  });
}

bool Workers::is_working_elsewhere() const {
  return std::ranges::any_of(session_.open_claims(), [this](const auto& one) { return is_elsewhere(one.second); });
}

}  // namespace terrace::search
