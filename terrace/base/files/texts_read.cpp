// Notes texts and answers with what identifies their files.
#include "terrace/base/files/texts_read.h"

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"

namespace terrace {
namespace {

constexpr size_t largest_text = size_t{4} << 20, most_bytes = size_t{64} << 20;

// Size, time of change and number of a file; zeros where there is none. The number of its device is left out, since
// machines number the devices of a shared file system differently.
using FileIdentity = std::array<int64_t, 4>;

using FileIdentities = std::vector<FileIdentity>;

// The text of one file, or what was found in some.
struct NotedText {
  FileIdentities files = {};
  std::string text;
};

FileIdentity identity_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, static_cast<int64_t>(status.st_ino)};
}

// The texts that this process has noted and those that it took over from another process.
struct Texts {
  std::mutex mutex;
  std::map<std::string, NotedText> noted, taken;  // by the path of a text, or by question_key()
  size_t noted_bytes = 0;
  std::atomic<bool> notes = false, has_taken = false;
};

Texts& texts() {
  static Texts all;
  return all;
}

FileIdentities identities_of(const std::vector<std::filesystem::path>& paths) {
  FileIdentities identities;
  for (const auto& path : paths) identities.push_back(identity_of(path));
  return identities;
}

// No path has a NUL.
std::string question_key(const std::vector<std::filesystem::path>& paths, std::string_view question) {
  std::string key(question);
  for (const auto& path : paths) key.append(1, '\0').append(path.string());
  return key;
}

std::optional<std::string> taken(const std::string& key, const std::vector<std::filesystem::path>& paths) {
  Texts& all = texts();
  if (!all.has_taken) return std::nullopt;
  const std::lock_guard lock(all.mutex);
  const auto found = all.taken.find(key);
  if (found == all.taken.end() || found->second.files != identities_of(paths)) return std::nullopt;
  return found->second.text;
}

void note(const std::string& key, FileIdentities files, const std::string& text) {
  Texts& all = texts();
  if (!all.notes || text.size() > largest_text) return;
  const std::lock_guard lock(all.mutex);
  if (all.noted_bytes + text.size() > most_bytes) return;
  if (all.noted.insert_or_assign(key, NotedText{std::move(files), text}).second) all.noted_bytes += text.size();
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
  for (const auto& [key, noted] : all.noted) {
    list.push_back(
        {Json::binary({key.begin(), key.end()}), noted.files, Json::binary({noted.text.begin(), noted.text.end()})});
  }
  std::string bytes;
  Json::to_cbor(list, bytes);
  return bytes;
}

void take_texts(const std::string& bytes) {
  Texts& all = texts();
  const std::lock_guard lock(all.mutex);
  all.taken.clear();
  const auto text_of = [](const Json& bytes_of_text) {
    const auto& binary = bytes_of_text.get_binary();
    return std::string(binary.begin(), binary.end());
  };
  if (!bytes.empty()) {
    for (const Json& one : Json::from_cbor(bytes)) {
      all.taken[text_of(one.at(0))] = {one.at(1).get<FileIdentities>(), text_of(one.at(2))};
    }
  }
  all.has_taken = !all.taken.empty();
}

std::string found_in(const std::vector<std::filesystem::path>& files, std::string_view question,
                     const std::function<std::string()>& find) {
  const std::string key = question_key(files, question);
  if (std::optional<std::string> answer = taken(key, files)) return *std::move(answer);
  // Looked at before they are read: what was found in files that change meanwhile fits none.
  FileIdentities identities = identities_of(files);
  std::string answer = find();
  note(key, std::move(identities), answer);
  return answer;
}

std::optional<std::string> taken_text(const std::filesystem::path& path) { return taken(path.string(), {path}); }

void note_text(const std::filesystem::path& path, const std::string& text) {
  if (!texts().notes) return;
  const FileIdentity file = identity_of(path);
  // Another size: the file was changed meanwhile.
  if (file[0] == static_cast<int64_t>(text.size())) note(path.string(), {file}, text);
}

}  // namespace terrace
