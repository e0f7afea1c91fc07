// Forks and executes; the pipes are closed in other children.
#include "terrace/supervise/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

namespace terrace::supervise {
namespace {

constexpr int cannot_execute = 127;
constexpr int of_signal = 128;

[[noreturn]] void throw_errno(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

struct Pipe {
  int read = -1, write = -1;

  void open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
    read = ends[0];
    write = ends[1];
  }
};

void close_end(int& end) {
  if (end >= 0) ::close(end);
  end = -1;
}

}  // namespace

Child::Child(const std::vector<std::string>& arguments, Pipes pipes) {
  Pipe in, out;
  if (pipes == Pipes::input_and_output) in.open();
  if (pipes != Pipes::none) out.open();
  std::vector<char*> words;
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t parent = ::getpid();
  id_ = ::fork();
  if (id_ < 0) throw_errno("cannot start a process");
  if (id_ == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(of_signal + SIGTERM);
    if (pipes == Pipes::input_and_output) ::dup2(in.read, STDIN_FILENO);
    if (pipes != Pipes::none) ::dup2(out.write, pipes == Pipes::errors ? STDERR_FILENO : STDOUT_FILENO);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);
    ::execvp(words[0], words.data());
    ::_exit(cannot_execute);
  }
  ::setpgid(id_, id_);  // whoever of the two comes first
  if (pipes == Pipes::none) return;
  close_end(in.read);
  close_end(out.write);
  input_ = in.write;
  output_ = out.read;
  ::fcntl(output_, F_SETFL, O_NONBLOCK);
}

Child::~Child() {
  close_input();
  close_end(output_);
  if (!ended()) {
    ::kill(-id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
}

std::optional<int> Child::ended() {
  if (code_) return code_;
  int status = 0;
  const pid_t found = ::waitpid(id_, &status, WNOHANG);
  if (found == id_) code_ = WIFEXITED(status) ? WEXITSTATUS(status) : of_signal + WTERMSIG(status);
  return code_;
}

void Child::send(int signal) const {
  if (!code_) ::kill(id_, signal);
}

void Child::end(double grace_seconds) {
  send(SIGTERM);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(grace_seconds);
  while (!ended()) {
    take_output();
    if (std::chrono::steady_clock::now() > limit) ::kill(-id_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void Child::take_output() {
  std::array<char, 4096> piece{};
  while (output_ >= 0) {
    const ssize_t bytes = ::read(output_, piece.data(), piece.size());
    if (bytes <= 0) break;
    unread_.append(piece.data(), static_cast<size_t>(bytes));
  }
}

std::string Child::read_output() {
  take_output();
  return std::exchange(unread_, {});
}

void Child::close_input() { close_end(input_); }

}  // namespace terrace::supervise
