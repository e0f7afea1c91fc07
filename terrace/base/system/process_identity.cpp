// Reads what Linux tells of processes in /proc.
#include "terrace/base/system/process_identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "terrace/base/files/temporary_name.h"

namespace terrace {
namespace {

std::string text_of_proc(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string this_kernel() {
  std::string boot = text_of_proc("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  char name[64] = {};
  const ssize_t length = ::readlink("/proc/self/ns/pid", name, sizeof name);
  return boot + (length > 0 ? std::string(name, static_cast<size_t>(length)) : "");
}

// The start time of the process; empty where there is none, or it has ended and its parent has not yet asked how.
std::string start_of(int64_t process_id) {
  const std::string text = text_of_proc(fmt::format("/proc/{}/stat", process_id));
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream words(text.substr(name_end + 1));
  std::string word;
  for (int i = 3; i <= 22 && words >> word; ++i) {
    const bool is_state = i == 3;
    if (is_state && (word == "Z" || word == "X")) return "";
  }
  return word;
}

}  // namespace

bool ProcessIdentity::is_of_this_host() const { return kernel == this_kernel(); }
bool ProcessIdentity::has_ended() const { return start_of(process_id) != start; }
std::string ProcessIdentity::text() const { return fmt::format("{} {} {} {}", host, process_id, start, kernel); }

ProcessIdentity identity_of_this_process() {
  return {.host = host_name(), .process_id = ::getpid(), .start = start_of(::getpid()), .kernel = this_kernel()};
}

std::optional<ProcessIdentity> parse_process_identity(std::string_view text) {
  std::istringstream words{std::string(text)};
  ProcessIdentity identity;
  if (words >> identity.host >> identity.process_id >> identity.start >> identity.kernel) return identity;
  return std::nullopt;
}

}  // namespace terrace
