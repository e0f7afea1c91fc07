// Reads and writes the files P.progress.json.
#include "terrace/data/fields/preparation/fields_progress.h"

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <system_error>
#include <utility>

#include "terrace/base/files/file.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/text/json.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

Json json_of_place(const StoredArray& array) { return {{"offset", array.offset}, {"sizes", array.sizes}}; }

StoredArray place_of(const Json& json) {
  return {.offset = json.at("offset").get<uint64_t>(), .sizes = json.at("sizes").get<std::vector<uint64_t>>()};
}

Json json_of_work(const FieldsWork& work) {
  Json list = Json::array();
  for (const PieceTimes& times : work) list.push_back({times.piece, times.first, times.end});
  return list;
}

std::optional<FieldsProgress::Left> read_progress(const fs::path& path, const fs::path& folder) {
  const Json json = parse_json_or_discard(read_text(path));
  try {
    FieldsProgress::Left left{.plan = json.at("plan").get<std::string>(),
                              .partial = folder / json.at("partial").get<std::string>(),
                              .has_missing = json.at("has_missing").get<bool>(),
                              .fields = place_of(json.at("fields")),
                              .constants = place_of(json.at("constants")),
                              .climatology = place_of(json.at("climatology"))};
    for (const Json& times : json.at("done"))
      add_work(left.done, {times.at(0).get<size_t>(), times.at(1).get<size_t>(), times.at(2).get<size_t>()});
    if (fs::is_regular_file(left.partial)) return left;
  } catch (const Json::exception&) {
    // A damaged file is of no use, like one whose unfinished P.nc is gone.
  }
  return std::nullopt;
}

fs::path folder_of(const std::string& prefix) {
  const fs::path folder = fs::path(prefix).parent_path();
  return folder.empty() ? "." : folder;
}

// Returns the files of all ranks, the first rank's first.
std::vector<fs::path> progress_files(const std::string& prefix) {
  std::vector<fs::path> files;
  if (fs::exists(progress_path(prefix))) files.push_back(progress_path(prefix));
  const fs::path folder = folder_of(prefix);
  const std::string begin = fs::path(prefix).filename().string() + ".progress.", end = ".json";
  if (!fs::is_directory(folder)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(end) || name.size() <= begin.size() + end.size()) continue;
    int64_t rank = 0;
    const char *first = name.data() + begin.size(), *last = name.data() + name.size() - end.size();
    const auto [rest, error] = std::from_chars(first, last, rank);
    if (error == std::errc() && rest == last) files.push_back(progress_path(prefix, rank));
  }
  return files;
}

}  // namespace

fs::path progress_path(const std::string& prefix, int64_t rank) {
  return rank == 0 ? prefix + ".progress.json" : fmt::format("{}.progress.{}.json", prefix, rank);
}

std::optional<FieldsProgress::Left> FieldsProgress::find(const std::string& prefix) {
  std::optional<Left> left;
  for (const fs::path& path : progress_files(prefix)) {
    const std::optional<Left> one = read_progress(path, fields_path(prefix).parent_path());
    if (!one) continue;
    if (!left) {
      left = one;
    } else if (one->plan == left->plan && one->partial == left->partial) {
      for (const PieceTimes& times : one->done) add_work(left->done, times);
      left->has_missing = left->has_missing || one->has_missing;
    }
  }
  return left;
}

void FieldsProgress::remove_others(const std::string& prefix) {
  for (const fs::path& path : progress_files(prefix)) {
    if (path != progress_path(prefix)) fs::remove(path);
  }
}

void FieldsProgress::remove_abandoned(const std::string& prefix) {
  const fs::path folder = folder_of(prefix);
  const std::string begin = "." + fs::path(prefix).filename().string() + ".progress.", end = ".json";
  std::set<fs::path> of_files;
  if (!fs::is_directory(folder)) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const size_t json = name.find(end, begin.size() - 1);
    if (!name.starts_with(begin) || !name.ends_with(".partial") || json == std::string::npos) continue;
    of_files.insert(fs::path(prefix).parent_path() / name.substr(1, json + end.size() - 1));
  }
  for (const fs::path& path : of_files) remove_abandoned_partials(path);
}

FieldsProgress::FieldsProgress(const std::string& prefix, int64_t rank, std::string plan, fs::path partial,
                               FieldsWork done, double seconds)
    : path_(progress_path(prefix, rank)),
      plan_(std::move(plan)),
      partial_(std::move(partial)),
      done_(std::move(done)),
      seconds_(seconds) {}

FieldsProgress::~FieldsProgress() {
  std::error_code none;
  fs::remove(path_, none);
}

void FieldsProgress::reach(const PieceTimes& written, const FieldsDescription& description, const StoreFile& store) {
  add_work(done_, written);
  if (std::chrono::duration<double>(Clock::now() - recorded_).count() < seconds_) return;
  store.sync();
  record(description);
}

void FieldsProgress::record(const FieldsDescription& description) {
  const Json json = {{"plan", plan_},
                     {"partial", partial_.filename().string()},
                     {"done", json_of_work(done_)},
                     {"has_missing", description.has_missing},
                     {"fields", json_of_place(description.fields)},
                     {"constants", json_of_place(description.constant_fields)},
                     {"climatology", json_of_place(description.climatology_fields)}};
  write_text_atomically(path_, json.dump(2) + "\n");
  recorded_ = Clock::now();
}

}  // namespace terrace::data
