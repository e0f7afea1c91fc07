// Uses process file descriptors: one becomes readable when its process ends, and never refers to a later process with
// the same number.
#include "terrace/comm/mpi/peer_processes.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>

namespace terrace::comm {
namespace {

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string process_namespace() {
  char name[64] = {};
  const ssize_t length = readlink("/proc/self/ns/pid", name, sizeof name);
  return length > 0 ? std::string(name, static_cast<size_t>(length)) : std::string();
}

}  // namespace

PeerIdentity own_process_identity() {
  const std::string kernel = boot_id() + process_namespace();
  return {.process_id = getpid(), .kernel = XXH3_64bits(kernel.data(), kernel.size())};
}

PeerProcesses::PeerProcesses(const std::vector<PeerIdentity>& identities, int64_t own_rank) {
  for (size_t rank = 0; rank < identities.size(); ++rank) {
    if (static_cast<int64_t>(rank) == own_rank) continue;
    if (identities[rank].kernel != identities[static_cast<size_t>(own_rank)].kernel) continue;
    const long watch = syscall(SYS_pidfd_open, static_cast<pid_t>(identities[rank].process_id), 0);
    // A process that ended since the exchange is kept without a descriptor, so that find_ended() reports it.
    if (watch < 0 && errno != ESRCH) continue;
    peers_.push_back({static_cast<int64_t>(rank), identities[rank].process_id, static_cast<int>(watch)});
  }
}

PeerProcesses::~PeerProcesses() {
  for (const Peer& peer : peers_) {
    if (peer.watch >= 0) close(peer.watch);
  }
}

std::optional<PeerProcesses::Peer> PeerProcesses::find_ended() const {
  std::vector<pollfd> watches;
  for (const Peer& peer : peers_) {
    if (peer.watch < 0) return peer;
    watches.push_back({peer.watch, POLLIN, 0});
  }
  if (watches.empty() || poll(watches.data(), watches.size(), 0) <= 0) return std::nullopt;
  for (size_t i = 0; i < watches.size(); ++i) {
    if (watches[i].revents != 0) return peers_[i];
  }
  return std::nullopt;
}

}  // namespace terrace::comm
