// Processes of other ranks on this machine, watched through the kernel: an end is seen at once, however it came.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace terrace::comm {

// Says who a process is to those who share its kernel and see the same process numbers. Plain bytes, to be sent.
struct ProcessMark {
  int64_t process_id = 0;
  uint64_t kernel = 0;  // boot and process-id namespace, hashed

  bool operator==(const ProcessMark&) const = default;
};

ProcessMark own_process_mark();

class PeerProcesses {
 public:
  // Watches those of `marks`, one a rank, that this process can see. A kernel older than Linux 5.3 cannot watch.
  PeerProcesses(const std::vector<ProcessMark>& marks, int64_t own_rank);
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
