// Stores losses in a JSON file, which is replaced atomically.
#include "terrace/data/text/unigram_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t losses_kept = 32;

bool is_entry(const Json& entry) {
  return entry.is_object() && entry.contains("key") && entry.contains("loss") && entry["loss"].is_number();
}

// Returns the file's entries, {"key": ..., "loss": ...}; none where it is missing or damaged, as losses can be computed
// again.
std::vector<Json> entries_of(const fs::path& file) {
  std::vector<Json> entries;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return entries;
  try {
    const Json all = parse_json(read_text(file));
    std::copy_if(all.at("losses").begin(), all.at("losses").end(), std::back_inserter(entries), is_entry);
  } catch (const Json::exception&) {
    entries.clear();
  } catch (const UserError&) {  // it cannot be opened
    entries.clear();
  }
  return entries;
}

bool write_all(int descriptor, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(descriptor, text.data() + at, text.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    at += static_cast<size_t>(wrote);
  }
  return ::fsync(descriptor) == 0;
}

// A file in the folder of `file` that is removed unless it is renamed. Its name is random: machines that share a folder
// may have processes with the same id.
struct TemporaryFile {
  explicit TemporaryFile(const fs::path& file)
      : name((file.parent_path() / ("." + file.filename().string() + ".XXXXXX")).string()),
        descriptor(::mkostemp(name.data(), O_CLOEXEC)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor < 0) return;
    ::close(descriptor);
    ::unlink(name.c_str());
  }

  std::string name;
  int descriptor;
};

}  // namespace

fs::path unigram_path(const fs::path& bin) { return fs::path(bin).replace_extension(".unigram.json"); }

std::optional<double> stored_unigram_loss(const fs::path& file, const Json& key) {
  for (const Json& entry : entries_of(file)) {
    if (entry["key"] == key) return entry["loss"].get<double>();
  }
  return std::nullopt;
}

bool can_store_beside(const fs::path& file) {
  const TemporaryFile probe(file);
  return probe.descriptor >= 0;
}

void store_unigram_loss(const fs::path& file, const Json& key, double loss) {
  if (!std::isfinite(loss)) return;
  Json entries = Json::array({{{"key", key}, {"loss", loss}}});
  for (Json& entry : entries_of(file)) {
    if (entries.size() < losses_kept && entry["key"] != key) entries.push_back(std::move(entry));
  }
  const std::string text = Json{{"losses", entries}}.dump(1) + "\n";
  // The file is readable for all who can read the corpus: mkostemp() makes files for their owner alone.
  constexpr mode_t for_all = 0644;
  const TemporaryFile temporary(file);
  if (temporary.descriptor < 0 || !write_all(temporary.descriptor, text)) return;
  if (::fchmod(temporary.descriptor, for_all) == 0) (void)::rename(temporary.name.c_str(), file.c_str());
}

}  // namespace terrace::data
