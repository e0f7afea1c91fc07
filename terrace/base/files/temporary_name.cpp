// Makes temporary names, and finds out from them who wrote what was left behind.
#include "terrace/base/files/temporary_name.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>

#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"

namespace terrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view tail = ".partial";
constexpr auto recent = std::chrono::minutes(10);

// The host in a name: without dots, which separate the parts of the name, and so short that the name stays legal.
std::string short_host_name() {
  const std::string name = host_name();
  return name.substr(0, std::min<size_t>(name.find('.'), 32));
}

struct Writer {
  std::string host;
  pid_t process_id;
};

// The writer that the name of a file says, if it is a temporary name for `final_name`.
std::optional<Writer> writer_of(std::string_view name, const std::string& final_name) {
  const std::string head = "." + final_name + ".";
  if (!name.starts_with(head) || !name.ends_with(tail) || name.size() <= head.size() + tail.size()) return std::nullopt;
  name = name.substr(head.size(), name.size() - head.size() - tail.size());
  const size_t last = name.rfind('-'), before = name.rfind('-', last == std::string_view::npos ? last : last - 1);
  if (before == std::string_view::npos || before == last || name.find('.') != std::string_view::npos)
    return std::nullopt;
  Writer writer{std::string(name.substr(0, before)), 0};
  const auto parsed = std::from_chars(name.data() + before + 1, name.data() + last, writer.process_id);
  if (parsed.ec != std::errc() || parsed.ptr != name.data() + last || writer.process_id <= 0) return std::nullopt;
  return writer;
}

bool is_alive(pid_t process_id) { return process_id != ::getpid() && (::kill(process_id, 0) == 0 || errno == EPERM); }

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name.front() == '\0') return "localhost";
  return name.data();
}

std::string unique_process_name() {
  return fmt::format("{}-{}-{:08x}", short_host_name(), ::getpid(), std::random_device()());
}

fs::path temporary_path(const fs::path& final_path) {
  return final_path.parent_path() /
         fmt::format(".{}.{}{}", final_path.filename().string(), unique_process_name(), tail);
}

void remove_abandoned_partials(const fs::path& final_path, const fs::path& kept) {
  const fs::path folder = final_path.parent_path().empty() ? "." : final_path.parent_path();
  if (!fs::exists(folder)) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto writer = writer_of(entry.path().filename().string(), final_path.filename().string());
    if (!writer) continue;
    const bool is_here = writer->host == short_host_name();
    std::error_code gone;
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(entry.path(), gone);
    if (gone) continue;
    if (is_here ? is_alive(writer->process_id) : age < recent) {
      throw UserError::of(
          "process {} on {} is writing {}; wait for it, choose another name, or remove {} if that process has ended",
          writer->process_id, writer->host, final_path.string(), entry.path().string());
    }
    if (entry.path().filename() == kept.filename()) continue;
    if (!is_here) {
      log_info("{} was left by process {} on {}; remove it if that process has ended", entry.path().string(),
               writer->process_id, writer->host);
      continue;
    }
    log_info("removing {}, left by an interrupted run", entry.path().string());
    fs::remove_all(entry.path());
  }
}

}  // namespace terrace
