// Fuzzes the reader of manifests, with the checksum mended, which would stop almost every input at the door.
#include "terrace/checkpoint/manifest.h"

#include <optional>
#include <string>

#include "terrace/base/file.h"
#include "tests/fuzz/judge.h"

namespace {

using terrace::Json;

// Nothing where the input is no JSON object, or is nested deeper than a manifest may be.
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
  TERRACE_CHECK(terrace::checkpoint::parse_manifest(terrace::checkpoint::dump_manifest(manifest), "m") == manifest,
                "the dump is read as another manifest");
  return 0;
}
