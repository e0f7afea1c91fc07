// Creating a file that nobody else has created, and finding out whether who has is alive.
#include "terrace/base/lock_mark.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/log.h"

namespace terrace {
namespace {

namespace fs = std::filesystem;

constexpr auto beat = std::chrono::seconds(15);
constexpr double dead_after_seconds = 180;  // without a sign of life, as the file system's clock has it

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

// Among what processes' numbers mean the same: the boot of a machine and its namespace of processes.
std::string kernel() {
  std::string boot = text_of("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  char name[64] = {};
  const ssize_t length = ::readlink("/proc/self/ns/pid", name, sizeof name);
  return boot + (length > 0 ? std::string(name, static_cast<size_t>(length)) : "");
}

// By which it is not taken for a later process of its number; empty where there is none.
std::string start_of(int64_t process_id) {
  const std::string text = text_of(fmt::format("/proc/{}/stat", process_id));
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream words(text.substr(name_end + 1));
  std::string word;
  for (int i = 3; i <= 22 && words >> word; ++i) {
  }
  return word;
}

std::string mark_of_this_process() {
  return fmt::format("{} {} {} {}\n", host_name(), ::getpid(), start_of(::getpid()), kernel());
}

struct Holder {
  std::string host, start, kernel;
  int64_t process_id = 0;
};

std::optional<Holder> holder_in(const std::string& text) {
  std::istringstream words(text);
  Holder holder;
  if (words >> holder.host >> holder.process_id >> holder.start >> holder.kernel) return holder;
  return std::nullopt;
}

timespec change_of(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mtim : timespec{};
}

// Both times are of the file system's clock, which may be another machine's.
double seconds_without_life(const fs::path& path) {
  const fs::path beside = path.string() + fmt::format(".{}.now", ::getpid());
  std::ofstream(beside) << "\n";
  const timespec now = change_of(beside), then = change_of(path);
  std::error_code ignored;
  fs::remove(beside, ignored);
  return static_cast<double>(now.tv_sec - then.tv_sec);
}

// Why who holds it is taken for dead; empty where it lives.
std::string death_of(const fs::path& path, const std::optional<Holder>& holder) {
  if (holder && holder->kernel == kernel()) {
    return start_of(holder->process_id) == holder->start ? "" : "has died";
  }
  const double seconds = seconds_without_life(path);
  return seconds > dead_after_seconds ? fmt::format("has given no sign of life for {:.0f} s", seconds) : "";
}

}  // namespace

LockMark::LockMark(fs::path path, const std::string& held_message)
    : path_(std::move(path)), own_(mark_of_this_process()) {
  if (!create()) {
    take_over_a_dead_one(held_message);
    if (!create()) throw UserError(held_message);
  }
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  heart_ = std::thread([this] { show_life(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LockMark::~LockMark() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  heart_.join();
  std::error_code ignored;
  if (text_of(path_) == own_) fs::remove(path_, ignored);
}

bool LockMark::create() const {
  const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0 && errno == EEXIST) return false;
  const bool written = descriptor >= 0 && ::write(descriptor, own_.data(), own_.size()) == std::ssize(own_);
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (written) return true;
  if (descriptor >= 0) ::unlink(path_.c_str());
  throw std::system_error(error, std::generic_category(), "cannot create " + path_.string());
}

void LockMark::take_over_a_dead_one(const std::string& held_message) const {
  const std::string text = text_of(path_);
  const std::optional<Holder> holder = holder_in(text);
  const std::string death = death_of(path_, holder);
  const std::string who = holder ? fmt::format("process {} on {}", holder->process_id, holder->host)
                                 : "a process that did not say its name";
  if (death.empty()) throw UserError::of("{} ({} holds {})", held_message, who, path_.string());
  // Out of the way in one operation. Another process may have done so before and hold the lock by now.
  const fs::path aside = path_.string() + fmt::format(".{}.dead", ::getpid());
  if (::rename(path_.c_str(), aside.c_str()) != 0) return;
  const bool another = text_of(aside) != text;
  if (another && ::link(aside.c_str(), path_.c_str()) != 0 && errno != EEXIST) {
    log_warning("{} could not be given back to its owner", path_.string());
  }
  ::unlink(aside.c_str());
  if (another) throw UserError(held_message);
  log_warning("{}, which holds {}, {}: its lock is taken over", who, path_.string(), death);
}

void LockMark::show_life() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, beat, [this] { return ends_; })) {
    if (::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0) == 0) continue;
    log_warning("{} shows no more that this process lives: {}", path_.string(),
                std::error_code(errno, std::generic_category()).message());
  }
}

}  // namespace terrace
