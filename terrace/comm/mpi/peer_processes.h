// Detects through the kernel that the process of another rank on this machine has ended, in whatever way.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace terrace::comm {

// Identifies a process to processes with the same kernel and process-id namespace. Plain bytes that can be sent.
struct PeerIdentity {
  int64_t process_id = 0;
  uint64_t kernel = 0;  // boot and process-id namespace, hashed

  bool operator==(const PeerIdentity&) const = default;
};

PeerIdentity own_process_identity();

class PeerProcesses {
 public:
  // `identities` has one entry for each rank. Watches the processes that this one can see; needs Linux 5.3 or newer.
  PeerProcesses(const std::vector<PeerIdentity>& identities, int64_t own_rank);
  ~PeerProcesses();
  PeerProcesses(const PeerProcesses&) = delete;
  PeerProcesses& operator=(const PeerProcesses&) = delete;

  struct Peer {
    int64_t rank = 0;
    int64_t process_id = 0;
    int watch = -1;  // a process file descriptor
  };
  std::optional<Peer> find_ended() const;  // returns at once

 private:
  std::vector<Peer> peers_;
};

}  // namespace terrace::comm
