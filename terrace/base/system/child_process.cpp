// Starts children by posix_spawn, which is safe in a program with threads, and waits on their process descriptors.
#include "terrace/base/system/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <sstream>
#include <system_error>

#include "terrace/base/files/file.h"

extern char** environ;

namespace terrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int grace_seconds = 5;
constexpr int poll_milliseconds = 100;

[[noreturn]] void throw_error(int code, const std::string& what) {
  throw std::system_error(code, std::generic_category(), what);
}

// The watcher is forked and not executed, so it may only make calls that are safe in a signal handler.
struct Watched {
  static constexpr size_t most = 4096;
  pid_t groups[most] = {};
  size_t count = 0;

  void add(pid_t group) {
    if (count < most) groups[count++] = group;
  }
  void remove(pid_t group) {
    for (size_t i = 0; i < count; ++i) {
      if (groups[i] == group) groups[i--] = groups[--count];
    }
  }
  bool signal(int number) const {
    bool any = false;
    for (size_t i = 0; i < count; ++i) any = ::kill(-groups[i], number) == 0 || any;
    return any;
  }
};

[[noreturn]] void watch(int pipe) {
  // Signals from the terminal end the program, and thereby the children; they must not end the watcher first.
  ::setsid();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_IGN);
  // Other descriptors would keep locks and pipes of the program.
  ::dup2(pipe, 0);
  ::close_range(1, ~0U, 0);
  static Watched watched;
  pid_t message = 0;
  while (true) {
    const ssize_t size = ::read(0, &message, sizeof message);
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof message) break;
    if (message > 0) {
      watched.add(message);
    } else {
      watched.remove(-message);
    }
  }
  if (watched.signal(SIGTERM)) {
    constexpr timespec pause = {0, 100'000'000};
    for (int tenth = 0; tenth < 10 * grace_seconds && watched.signal(0); ++tenth) ::nanosleep(&pause, nullptr);
    watched.signal(SIGKILL);
  }
  ::_exit(0);
}

// The resident memory of all processes of the group; pages that they share count once.
int64_t resident_bytes(pid_t group) {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  int64_t own = 0, most_shared = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (!std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) continue;
    if (::getpgid(static_cast<pid_t>(std::stol(name))) != group) continue;
    std::ifstream file(entry.path() / "statm");
    int64_t size = 0, resident = 0, shared = 0;
    if (!(file >> size >> resident >> shared)) continue;  // the process has ended meanwhile
    own += resident - shared;
    most_shared = std::max(most_shared, shared);
  }
  return page * (own + most_shared);
}

class SpawnSettings {
 public:
  explicit SpawnSettings(const std::filesystem::path& output) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
  }

  posix_spawnattr_t attributes = {};
  posix_spawn_file_actions_t files = {};
};

pid_t spawn(const std::vector<std::string>& arguments, const std::filesystem::path& output) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  const SpawnSettings settings(output);
  pid_t child = -1;
  const int error =
      ::posix_spawnp(&child, pointers.front(), &settings.files, &settings.attributes, pointers.data(), environ);
  if (error != 0) {
    throw CannotStart(error, std::generic_category(), fmt::format("'{}' cannot be started", arguments.front()));
  }
  return child;
}

// Waits until the child has ended, without taking its exit code: its number is not given to another process before.
bool ended_within(pid_t child, int descriptor, int milliseconds) {
  pollfd poll = {descriptor, POLLIN, 0};
  ::poll(&poll, 1, milliseconds);
  siginfo_t info = {};
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child;
}

}  // namespace

std::string end_of_output(const std::filesystem::path& output, size_t most) {
  std::string text = std::filesystem::exists(output) ? read_text(output) : "";
  text.erase(std::ranges::find_if(text.rbegin(), text.rend(), [](char c) { return c != '\n' && c != ' '; }).base(),
             text.end());
  if (text.size() <= most) return text;
  const size_t line = text.find('\n', text.size() - most);
  return text.substr(line == std::string::npos ? text.size() - most : line + 1);
}

ChildProcesses::ChildProcesses() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_error(errno, "pipe");
  watcher_ = ::fork();
  if (watcher_ == 0) {
    ::close(ends[1]);
    watch(ends[0]);
  }
  const int error = errno;
  ::close(ends[0]);
  pipe_ = ends[1];
  if (watcher_ > 0) return;
  ::close(pipe_);
  throw_error(error, "fork");
}

ChildProcesses::~ChildProcesses() {
  ::close(pipe_);
  ::waitpid(watcher_, nullptr, 0);
}

void ChildProcesses::tell_watcher(pid_t group) const {
  if (::write(pipe_, &group, sizeof group) != static_cast<ssize_t>(sizeof group)) throw_error(errno, "write to a pipe");
}

ChildEnd ChildProcesses::run(const std::vector<std::string>& arguments, const std::filesystem::path& output,
                             const ChildLimits& limits) {
  const Clock::time_point began = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  ChildEnd end;
  const pid_t child = spawn(arguments, output);
  tell_watcher(child);
  const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  double killed_from = -1;
  while (!ended_within(child, descriptor, poll_milliseconds)) {
    if (descriptor < 0) ::usleep(1000 * poll_milliseconds);
    end.memory_bytes = std::max(end.memory_bytes, resident_bytes(child));
    if (end.how == ChildEnd::How::exited && limits.memory_bytes > 0 && end.memory_bytes > limits.memory_bytes) {
      end.how = ChildEnd::How::over_memory;
      ::kill(-child, SIGKILL);
    } else if (end.how == ChildEnd::How::exited && (ends_all_ || (limits.seconds > 0 && seconds() > limits.seconds))) {
      end.how = ends_all_ ? ChildEnd::How::ended : ChildEnd::How::over_time;
      killed_from = seconds() + limits.grace_seconds;
      ::kill(-child, SIGTERM);
    } else if (killed_from >= 0 && seconds() > killed_from) {
      ::kill(-child, SIGKILL);
    }
  }
  if (descriptor >= 0) ::close(descriptor);
  ::kill(-child, SIGKILL);  // what is left of the group
  tell_watcher(-child);
  int status = 0;
  ::waitpid(child, &status, 0);
  end.seconds = seconds();
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
  if (end.how == ChildEnd::How::exited && !WIFEXITED(status)) end.how = ChildEnd::How::signalled;
  return end;
}

}  // namespace terrace
