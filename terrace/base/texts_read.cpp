// Notes texts with what identifies their files.
#include "terrace/base/texts_read.h"

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "terrace/base/error.h"
#include "terrace/base/json.h"

namespace terrace {
namespace {

constexpr size_t largest_text = size_t{4} << 20, most_bytes = size_t{64} << 20;

// Size, time of change and number of a file; zeros where there is none. The number of its device is left out, since
// machines number the devices of a shared file system differently.
using FileIdentity = std::array<int64_t, 4>;

struct NotedText {
  FileIdentity file = {};
  std::string text;
};

FileIdentity identity_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, static_cast<int64_t>(status.st_ino)};
}

// Of this process.
struct Texts {
  std::mutex mutex;
  std::map<std::string, NotedText> noted, taken;
  size_t noted_bytes = 0;
  std::atomic<bool> notes = false, has_taken = false;
};

Texts& texts() {
  static Texts all;
  return all;
}

}  // namespace

NotedTexts::NotedTexts() {
  TERRACE_CHECK(!texts().notes, "texts are noted already");
  texts().notes = true;
}

NotedTexts::~NotedTexts() {
  Texts& all = texts();
  const std::lock_guard lock(all.mutex);
  all.notes = false;
  all.noted.clear();
  all.noted_bytes = 0;
}

std::string NotedTexts::bytes() const {
  Texts& all = texts();
  const std::lock_guard lock(all.mutex);
  if (all.noted.empty()) return "";
  // CBOR (RFC 8949), since texts may have any bytes.
  Json list = Json::array();
  for (const auto& [path, noted] : all.noted) list.push_back({path, noted.file, noted.text});
  std::string bytes;
  Json::to_cbor(list, bytes);
  return bytes;
}

void take_texts(const std::string& bytes) {
  Texts& all = texts();
  const std::lock_guard lock(all.mutex);
  all.taken.clear();
  if (!bytes.empty()) {
    for (const Json& one : Json::from_cbor(bytes)) {
      all.taken[one.at(0).get<std::string>()] = {one.at(1).get<FileIdentity>(), one.at(2).get<std::string>()};
    }
  }
  all.has_taken = !all.taken.empty();
}

std::optional<std::string> taken_text(const std::filesystem::path& path) {
  Texts& all = texts();
  if (!all.has_taken) return std::nullopt;
  const std::lock_guard lock(all.mutex);
  const auto found = all.taken.find(path.string());
  if (found == all.taken.end() || found->second.file != identity_of(path)) return std::nullopt;
  return found->second.text;
}

void note_text(const std::filesystem::path& path, const std::string& text) {
  Texts& all = texts();
  if (!all.notes || text.size() > largest_text) return;
  const FileIdentity file = identity_of(path);
  const std::lock_guard lock(all.mutex);
  // Another size: the file was changed meanwhile.
  if (file[0] != static_cast<int64_t>(text.size()) || all.noted_bytes + text.size() > most_bytes) return;
  if (all.noted.insert_or_assign(path.string(), NotedText{file, text}).second) all.noted_bytes += text.size();
}

}  // namespace terrace
