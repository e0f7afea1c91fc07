// Compares each line with the forms of the launchers' messages.
#include "terrace/supervise/launcher_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <regex>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::supervise {
namespace {

// Lines of the ranks can be of any length; those of launchers are short.
constexpr size_t longest_message = 400;

using Found = std::match_results<std::string_view::const_iterator>;

bool finds(std::string_view line, const char* form, Found& found) {
  return std::regex_search(line.begin(), line.end(), found, std::regex(form));
}

bool is_ones_own(int64_t code) {
  return code != static_cast<int64_t>(ExitCode::done) && code != static_cast<int64_t>(ExitCode::stopped) &&
         code != static_cast<int64_t>(ExitCode::peer_failed);
}

}  // namespace

LauncherMessages::LauncherMessages(std::vector<std::string> nodes, int64_t ranks_per_node)
    : nodes_(std::move(nodes)), ranks_per_node_(ranks_per_node) {}

std::string LauncherMessages::take(const std::string& piece, bool is_last) {
  begun_ += piece;
  const size_t end = is_last ? begun_.size() : begun_.rfind('\n') + 1;
  std::string whole = begun_.substr(0, end);
  begun_.erase(0, end);
  for (std::string_view rest = whole; !rest.empty();) {
    const size_t length = std::min(rest.find('\n'), rest.size());
    if (!failed_ && length <= longest_message) read(rest.substr(0, length));
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  return whole;
}

void LauncherMessages::read(std::string_view line) {
  Found found;
  const auto number = [&](size_t group) { return std::stoll(found.str(group)); };
  if (finds(line,
            "noticed that process rank ([0-9]{1,9}) with PID [0-9]+ on node .* exited on (signal ([0-9]{1,3})(?: "
            "\\([^)]*\\))?)",
            found)) {
    const int64_t signal = number(3);
    if (signal != SIGTERM && signal != SIGINT) blame(number(1), found.str(2));
  } else if (finds(line, "srun: error: ([^ ]+): tasks? ([0-9]{1,9})[0-9,-]*: (.+)$", found)) {
    const int64_t rank = number(2);
    std::string how = found.str(3);
    if (how.starts_with("Terminated") || how.starts_with("Interrupt")) return;
    if (Found code; finds(how, "^Exited with exit code ([0-9]{1,3})", code)) {
      if (!is_ones_own(std::stoll(code.str(1)))) return;
      how = "exit code " + code.str(1);
    }
    blame(rank, std::move(how));
  } else if (finds(line, "MPI_ABORT was invoked on rank ([0-9]{1,9}) ", found) ||
             finds(line, "^ *Process name: \\[(?:\\[[0-9]+,[0-9]+\\]|[^ ,]+),([0-9]{1,9})\\]", found)) {
    of_rank_ = number(1);
  } else if (of_rank_ && finds(line, "(?:errorcode|Errorcode:|Exit code:) *(-?[0-9]{1,3})", found)) {
    if (is_ones_own(number(1))) blame(*of_rank_, "exit code " + found.str(1));
    of_rank_.reset();
  }
}

void LauncherMessages::blame(int64_t rank, std::string how) {
  const int64_t node = rank / ranks_per_node_;
  if (node >= std::ssize(nodes_)) return;
  failed_ = {.rank = rank, .node = nodes_[static_cast<size_t>(node)], .how = std::move(how)};
}

}  // namespace terrace::supervise
