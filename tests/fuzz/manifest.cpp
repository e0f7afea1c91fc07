// Fuzzes the reader of manifests, with the checksum mended, which would stop almost every input at the door.
#include "terrace/checkpoint/manifest.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"
#include "tests/fuzz/judge.h"

namespace {

using terrace::Json;
using terrace::checkpoint::TensorRecord;

// Returns no text where the input is no JSON object, or is nested deeper than a manifest may be.
std::optional<std::string> with_checksum(std::string_view text) {
  bool deep = false;
  Json json = Json::parse(
      text, [&](int depth, Json::parse_event_t, const Json&) { return !(deep = deep || depth > 100); }, false);
  if (deep || !json.is_object()) return std::nullopt;
  json.erase("checksum");
  const std::string body = json.dump();
  json["checksum"] = terrace::checksum(std::as_bytes(std::span(body)));
  return json.dump();
}

// Whatever was read, a reader can add up the slices' elements: they lie inside one whole tensor and apart.
void check_slices(const terrace::checkpoint::CollectionRecord& collection) {
  std::map<std::string, std::vector<TensorRecord>> slices;
  for (const auto& file : collection.files) {
    for (const TensorRecord& tensor : file.tensors) slices[tensor.name].push_back(tensor);
  }
  for (const auto& [name, records] : slices) {
    for (size_t i = 0; i < records.size(); ++i) {
      TERRACE_CHECK(records[i].global_shape == records[0].global_shape, "'{}' has two shapes", name);
      // The ends of many are compared with the next few only: pairs grow with the square.
      for (size_t j = i; j < std::min(records.size(), i + 50); ++j) {
        bool shared = true;
        for (size_t d = 0; d < records[i].global_shape.size(); ++d) {
          const TensorRecord &a = records[i], &b = records[j];
          TERRACE_CHECK(a.shape[d] >= 0 && a.offset[d] >= 0 && a.shape[d] <= a.global_shape[d] - a.offset[d],
                        "'{}' leaves its tensor", name);
          shared = shared &&
                   std::max(a.offset[d], b.offset[d]) < std::min(a.offset[d] + a.shape[d], b.offset[d] + b.shape[d]);
        }
        TERRACE_CHECK(i == j || !shared, "elements of '{}' are there twice", name);
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using terrace::checkpoint::Manifest;
  const std::string_view text = terrace::text_of(data, size);
  terrace::reads_or_refuses([&] { terrace::checkpoint::parse_manifest(text, "manifest.json"); });
  const auto mended = with_checksum(text);
  if (!mended) return 0;
  Manifest manifest;
  if (!terrace::reads_or_refuses([&] { manifest = terrace::checkpoint::parse_manifest(*mended, "manifest.json"); })) {
    return 0;
  }
  for (const auto& file : manifest.files()) {
    const std::filesystem::path name = file.name;
    TERRACE_CHECK(name.is_relative() && name.filename() == name && name != ".." && name != ".",
                  "'{}' leaves the folder", file.name);
  }
  for (const auto& collection : manifest.collections) check_slices(collection);
  TERRACE_CHECK(terrace::checkpoint::parse_manifest(terrace::checkpoint::dump_manifest(manifest), "m") == manifest,
                "the dump is read as another manifest");
  return 0;
}
