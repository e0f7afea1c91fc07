// Writes and reads the lines of claims.jsonl, each of which is a JSON object.
#include "terrace/search/session.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/search/study/study_record.h"

namespace terrace::search {
namespace {

// The beginning of the first line.
std::string beginning(const std::string& id) { return fmt::format("{{\"session\":\"{}\"", id); }

}  // namespace

Session::Session(const std::filesystem::path& folder, const Study& study)
    : file_(folder / "claims.jsonl"), study_(study) {}

void Session::forget() {
  file_ = SharedFile(file_.path());
  id_.clear();
  workers_.clear();
  open_claims_.clear();
}

bool Session::read_new() {
  if (exists() && file_.beginning(beginning(id_).size()) != beginning(id_)) return false;
  std::string text = file_.read_new();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const Json line = parse_json_or_discard(text.substr(begin, end - begin));
    try {
      apply(line);
    } catch (const Json::exception&) {
      throw UserError::of("{} has a damaged line: {}; remove the file once no search works in its folder",
                          file_.path().string(), text.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return true;
}

void Session::begin(double began) {
  forget();
  const Json line = {{"session", unique_process_name()}, {"began", began}, {"study", identity_of(study_)}};
  write_text_atomically(file_.path(), line.dump() + "\n");
  read_new();
}

void Session::add(const Json& line) {
  file_.append(line.dump() + "\n");
  apply(line);
}

void Session::add_worker(const std::string& name, const Worker& worker) {
  add({{"worker", name}, {"host", worker.host}, {"process", worker.process_id}});
}

void Session::remove_worker(const std::string& name, const std::string& reason) {
  add({{"left", name}, {"reason", reason}});
}

void Session::add_claim(const Claim& claim, int64_t instead_of) {
  Json line = {{"claim", claim.job.id},
               {"trial", claim.job.trial},
               {"budget", claim.job.budget},
               {"of", claim.worker},
               {"point", study_.space.texts(claim.job.point)}};
  if (instead_of >= 0) line["instead_of"] = instead_of;
  add(line);
}

void Session::finish(int64_t job) {
  open_claims_.erase(job);
  finished_.insert(job);
  next_job_ = std::max(next_job_, job + 1);
}

void Session::apply(const Json& line) {
  if (line.contains("session")) {
    id_ = line.at("session").get<std::string>();
    began_ = line.at("began").get<double>();
    identity_ = line.at("study").get<std::vector<std::string>>();
  } else if (line.contains("worker")) {
    workers_[line.at("worker").get<std::string>()] = {line.at("host").get<std::string>(),
                                                      line.at("process").get<int64_t>()};
  } else if (line.contains("left")) {
    workers_.erase(line.at("left").get<std::string>());
  } else {
    const auto job = line.at("claim").get<int64_t>();
    const auto point = study_.space.point_of(line.at("point").get<std::vector<std::string>>());
    if (line.contains("instead_of")) open_claims_.erase(line.at("instead_of").get<int64_t>());
    next_job_ = std::max(next_job_, job + 1);
    // Jobs of a study with other parameters are of no use, and are refused with that study.
    if (finished_.contains(job) || !point) return;
    open_claims_[job] = {{.id = job,
                          .trial = line.at("trial").get<int64_t>(),
                          .point = *point,
                          .budget = line.at("budget").get<int64_t>()},
                         line.at("of").get<std::string>()};
  }
}

}  // namespace terrace::search
