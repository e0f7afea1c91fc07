// Reads small files below the root.
#include "terrace/doctor/node_view.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "terrace/base/error.h"

namespace terrace::doctor {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (const size_t end = text.find('='); end != std::string::npos) all[text.substr(0, end)] = text.substr(end + 1);
  }
  return all;
}

std::string why_not_loaded(const fs::path& library) {
  void* const loaded = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* const error = ::dlerror();
    return error != nullptr ? error : "it cannot be loaded";
  }
  ::dlclose(loaded);
  return "";
}

// The output of a command of the shell, "" if it cannot be started.
std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> part = {};
  while (const size_t count = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), count);
  ::pclose(pipe);
  return text;
}

std::optional<int64_t> number_of(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The kernel writes spaces and other letters of mount points as \040.
std::string without_escapes(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    const char* const digits = text.data() + i + 1;
    const bool escaped =
        text[i] == '\\' && i + 3 < text.size() && std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3;
    plain += escaped ? static_cast<char>(code) : text[i];
    if (escaped) i += 3;
  }
  return plain;
}

bool is_below(const fs::path& path, const fs::path& folder) {
  const auto [end, unused] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() || (std::next(end) == folder.end() && end->empty());
}

}  // namespace

bool NodeView::exists(const fs::path& path) const {
  std::error_code error;
  return fs::exists(at(path), error) && !error;
}

std::vector<std::string> NodeView::lines(const fs::path& path) const {
  std::ifstream file(at(path));
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);) all.push_back(line);
  return all;
}

std::optional<std::string> NodeView::line(const fs::path& path) const {
  std::ifstream file(at(path));
  std::string line;
  if (std::getline(file, line)) return line;
  return std::nullopt;
}

std::optional<int64_t> NodeView::number(const fs::path& path) const {
  const std::optional<std::string> text = line(path);
  return text ? number_of(*text) : std::nullopt;
}

std::vector<std::string> NodeView::names(const fs::path& folder) const {
  std::vector<std::string> all;
  std::error_code error;
  for (fs::directory_iterator entry(at(folder), error), end; !error && entry != end; entry.increment(error)) {
    all.push_back(entry->path().filename());
  }
  std::ranges::sort(all, [](const std::string& a, const std::string& b) {
    const auto first = number_of(a), second = number_of(b);
    return first && second ? *first < *second : a < b;
  });
  return all;
}

std::optional<std::string> NodeView::variable(const std::string& name) const {
  const auto found = environment.find(name);
  return found == environment.end() ? std::nullopt : std::optional(found->second);
}

// Lines are "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw": the fifth word is the mount point, and
// the kind of file system follows the dash. A later mount covers an earlier one at the same place.
std::string NodeView::file_system(const fs::path& path) const {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error).lexically_normal();
  const fs::path real = root == "/" ? fs::weakly_canonical(absolute, error) : absolute;
  const fs::path& wanted = error ? absolute : real;
  fs::path nearest;
  std::string kind;
  for (const std::string& text : lines("/proc/self/mountinfo")) {
    std::istringstream words(text);
    std::string word, point;
    for (int i = 0; i < 5; ++i) words >> point;
    while (words >> word && word != "-") continue;
    const fs::path place = without_escapes(point);
    if (!(words >> word) || !is_below(wanted, place)) continue;
    if (place.native().size() < nearest.native().size()) continue;
    nearest = place;
    kind = word;
  }
  return kind;
}

// The options of the file system stand last, as in "- tmpfs shm rw,size=65536k".
std::optional<int64_t> NodeView::memory_disk_bytes(const fs::path& path) const {
  std::optional<int64_t> bytes;
  for (const std::string& text : lines("/proc/self/mountinfo")) {
    std::istringstream words(text);
    std::string word, point;
    for (int i = 0; i < 5; ++i) words >> point;
    if (without_escapes(point) != path.string()) continue;
    while (words >> word && word != "-") continue;
    std::string kind, device, option;
    if (!(words >> kind >> device >> word) || kind != "tmpfs") continue;
    bytes.reset();
    std::istringstream options(word);
    while (std::getline(options, option, ',')) {
      constexpr std::string_view size = "size=";
      if (!option.starts_with(size)) continue;
      int64_t number = 0;
      const auto end = std::from_chars(option.data() + size.size(), option.data() + option.size(), number).ptr;
      if (std::string_view(end) == "k") bytes = number * 1024;  // the kernel writes no other unit
    }
  }
  return bytes;
}

std::optional<fs::space_info> NodeView::space_of(const fs::path& path) const {
  if (space) return space(path);
  std::error_code error;
  const fs::space_info info = fs::space(at(path), error);
  if (error) return std::nullopt;
  return info;
}

NodeView this_node(bool thorough) {
  NodeView view{.environment = own_environment(), .job_cores = core_mask_unbound()};
  if (thorough) {
    view.load_error = why_not_loaded;
    view.wait_for_work = [] {
      const auto began = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    };
    view.nvidia_errors = [] {
      return output_of(
          "timeout 10 nvidia-smi --format=csv,noheader,nounits "
          "--query-gpu=pci.bus_id,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total "
          "2>/dev/null");
    };
  }
  view.slurm_job = [limit = thorough ? "2" : "0.05"](const std::string& job) {
    const bool is_number = !job.empty() && std::ranges::all_of(job, [](char c) { return c >= '0' && c <= '9'; });
    return is_number ? output_of(fmt::format("timeout {} scontrol show job --oneliner {} 2>/dev/null", limit, job))
                     : "";
  };
  return view;
}

NodeView node_below(const fs::path& root) {
  if (!fs::is_directory(root / "sys") && !fs::is_directory(root / "proc")) {
    throw UserError::of(
        "--root {}: has neither sys nor proc; name a folder with copies of a node's /sys, /proc and /etc",
        root.string());
  }
  return {.root = root, .environment = own_environment()};
}

}  // namespace terrace::doctor
