// Writes what a process knows of its crash.
#include "terrace/run/crash_folder.h"

#include <ATen/Version.h>
#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/base/system/process_identity.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json.h"
#include "terrace/base/version.h"
#include "terrace/checkpoint/folder.h"

extern char** environ;

namespace terrace::run {
namespace {

namespace fs = std::filesystem;

std::string utc_now(const char* form) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format(fmt::runtime(form), fmt::gmtime(now));
}

bool is_secret(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::array words = {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "KEY", "COOKIE", "AUTH"};
  return std::ranges::any_of(words, [&](const char* word) { return name.find(word) != std::string::npos; });
}

Json environment() {
  Json all = Json::object();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const size_t end = text.find('=');
    if (end == std::string::npos) continue;
    const std::string name = text.substr(0, end);
    all[name] = is_secret(name) ? "(left out)" : text.substr(end + 1);
  }
  return all;
}

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

std::string text_of(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

// Whether this process is the first one that creates the file.
bool creates(const fs::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file >= 0) ::close(file);
  return file >= 0;
}

void remove_oldest(const fs::path& crashes) {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(crashes)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);  // their names are times
  std::error_code ignored;
  for (size_t i = 0; i + kept_crashes < folders.size(); ++i) fs::remove_all(folders[i], ignored);
}

void write_for_all(const Crash& crash, const CrashedRun& run, const std::string& who) {
  const Json facts = {{"time", utc_now("{:%Y-%m-%dT%H:%M:%SZ}")},
                      {"reason", crash.reason},
                      {"told_by", who},
                      {"ranks", run.ranks},
                      {"version", std::string(version())},
                      {"torch", TORCH_VERSION},
                      {"build", run.build_facts},
                      {"command_line", command_line()},
                      {"environment", environment()}};
  write_text_atomically(crash.folder / "crash.json", text_of(facts));
  const fs::path run_folder = run.config.checkpoint.folder;
  std::error_code ignored;
  for (const char* name : {static_cast<const char*>(checkpoint::run_config_name), "run.json"}) {
    fs::copy_file(run_folder / name, crash.folder / name, fs::copy_options::overwrite_existing, ignored);
  }
  remove_oldest(crash.folder.parent_path());
  log_warning("{}: {}; stack, last calls of every rank, versions, configuration and environment are in {}", who,
              crash.reason, crash.folder.string());
}

}  // namespace

fs::path new_crash_folder(const fs::path& run_folder) { return run_folder / "crashes" / utc_now("{:%Y%m%dT%H%M%SZ}"); }

void write_crash(const Crash& crash, const CrashedRun& run) {
  fs::create_directories(crash.folder);
  const ProcessIdentity own_identity = identity_of_this_process();
  const std::string who = !crash.thread.empty() ? crash.thread
                          : run.rank >= 0       ? fmt::format("rank {}", run.rank)
                                                : std::string("the run");
  const Json own = {{"host", own_identity.host},
                    {"process", own_identity.process_id},
                    {"failed", who},
                    {"time", utc_now("{:%Y-%m-%dT%H:%M:%SZ}")},
                    {"reason", crash.reason},
                    {"stack", crash.stack}};
  const std::string name = run.rank >= 0 ? fmt::format("rank_{:03}.json", run.rank) : "threads.json";
  write_text_atomically(crash.folder / name, text_of(own));
  if (creates(crash.folder / "crash.json")) write_for_all(crash, run, who);
}

}  // namespace terrace::run
