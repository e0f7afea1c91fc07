// Notes texts with what identifies their files.
#include "terrace/base/texts_read.h"

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "terrace/base/error.h"

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

void append_number(std::string& bytes, int64_t number) {
  char raw[sizeof number];
  std::memcpy(raw, &number, sizeof number);
  bytes.append(raw, sizeof raw);
}

// Takes numbers and strings off a text from its beginning.
class Taken {
 public:
  explicit Taken(const std::string& bytes) : bytes_(bytes) {}
  bool is_at_end() const { return at_ == bytes_.size(); }
  int64_t number() {
    int64_t value = 0;
    const std::string raw = string(sizeof value);
    std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string string(size_t size) {
    TERRACE_CHECK(size <= bytes_.size() - at_, "{} bytes from {} on of {} noted ones", size, at_, bytes_.size());
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

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
  std::string bytes;
  for (const auto& [path, noted] : all.noted) {
    for (const int64_t number : noted.file) append_number(bytes, number);
    append_number(bytes, static_cast<int64_t>(path.size()));
    append_number(bytes, static_cast<int64_t>(noted.text.size()));
    bytes += path + noted.text;
  }
  return bytes;
}

void take_texts(const std::string& bytes) {
  Texts& all = texts();
  const std::lock_guard lock(all.mutex);
  all.taken.clear();
  for (Taken rest(bytes); !rest.is_at_end();) {
    NotedText noted;
    for (int64_t& number : noted.file) number = rest.number();
    const auto path_size = static_cast<size_t>(rest.number()), text_size = static_cast<size_t>(rest.number());
    std::string path = rest.string(path_size);
    noted.text = rest.string(text_size);
    all.taken[std::move(path)] = std::move(noted);
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
