// Reads and writes P.progress.json.
#include "terrace/data/fields/fields_progress.h"

#include <system_error>
#include <utility>

#include "terrace/base/file.h"

namespace terrace::data {
namespace {

Json json_of_place(const StoredArray& array) { return {{"offset", array.offset}, {"sizes", array.sizes}}; }

StoredArray place_of(const Json& json) {
  return {.offset = json.at("offset"), .sizes = json.at("sizes").get<std::vector<uint64_t>>()};
}

}  // namespace

std::filesystem::path progress_path(const std::string& prefix) { return prefix + ".progress.json"; }

std::optional<FieldsProgress::Left> FieldsProgress::find(const std::string& prefix) {
  if (!std::filesystem::exists(progress_path(prefix))) return std::nullopt;
  const Json json = parse_json_or_discard(read_text(progress_path(prefix)));
  try {
    Left left{.plan = json.at("plan"),
              .partial = fields_path(prefix).parent_path() / json.at("partial").get<std::string>(),
              .position = {json.at("piece"), json.at("time")},
              .has_missing = json.at("has_missing"),
              .fields = place_of(json.at("fields")),
              .constants = place_of(json.at("constants")),
              .climatology = place_of(json.at("climatology"))};
    if (std::filesystem::is_regular_file(left.partial)) return left;
  } catch (const Json::exception&) {
    // Of no use, like one without its file.
  }
  return std::nullopt;
}

FieldsProgress::FieldsProgress(const std::string& prefix, std::string plan, std::filesystem::path partial,
                               double seconds)
    : path_(progress_path(prefix)), plan_(std::move(plan)), partial_(std::move(partial)), seconds_(seconds) {}

FieldsProgress::~FieldsProgress() {
  std::error_code none;
  std::filesystem::remove(path_, none);
}

void FieldsProgress::reach(FieldsPosition position, const FieldsDescription& description, const StoreFile& store) {
  if (std::chrono::duration<double>(Clock::now() - recorded_).count() < seconds_) return;
  store.sync();
  const Json json = {{"plan", plan_},
                     {"partial", partial_.filename().string()},
                     {"piece", position.piece},
                     {"time", position.time},
                     {"has_missing", description.has_missing},
                     {"fields", json_of_place(description.fields)},
                     {"constants", json_of_place(description.constant_fields)},
                     {"climatology", json_of_place(description.climatology_fields)}};
  write_text_atomically(path_, json.dump(2) + "\n");
  recorded_ = Clock::now();
}

}  // namespace terrace::data
