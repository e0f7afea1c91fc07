// Identifies a process by a line of text that other processes can read, on this machine or another one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace terrace {

struct ProcessIdentity {
  std::string host;
  int64_t process_id = 0;
  std::string start;   // when the process began: tells it from a later process with the same id
  std::string kernel;  // the boot and the process-id namespace in which process ids are unique

  // Whether this process can tell if that one is alive.
  bool is_of_this_host() const;
  // Whether that process, which must be one of this host, has ended.
  bool has_ended() const;
  // The four fields with a space between two.
  std::string text() const;
  // Why a process of this host that is gone is dead, or "" for one that lives or that cannot be asked from here.
  std::string death() const { return is_of_this_host() && has_ended() ? "has died" : ""; }
};

ProcessIdentity identity_of_this_process();
// Reads what text() gives; no value for other text.
std::optional<ProcessIdentity> parse_process_identity(std::string_view text);

}  // namespace terrace
