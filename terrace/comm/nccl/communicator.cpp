// Roots are nonblocking, so that a rank which connects can look after the others meanwhile.
#include "terrace/comm/nccl/communicator.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/comm/nccl/end_marks.h"
#include "terrace/comm/nccl/nccl.h"

namespace terrace::comm {

void check_nccl(ncclResult_t result, const char* call, const std::string& group) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* details = ncclGetLastError(nullptr);
  throw CommError(fmt::format("{} failed in group {}: {}{}{}", call, group, ncclGetErrorString(result),
                              details != nullptr && *details != '\0' ? ": " : "", details != nullptr ? details : ""));
}

ncclConfig_t Communicator::config(bool blocking) const {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  config.maxCTAs = most_multiprocessors_;
  config.splitShare = blocking ? 0 : 1;
  return config;
}

// The blocks of transfers come before those of computations that are waiting, so that none is late because the GPU is
// full.
void Communicator::begin_to_connect(const char* id, int members, int own, int most_multiprocessors) {
  member_ = own;
  most_multiprocessors_ = most_multiprocessors;
  int least = 0, greatest = 0;
  check_gpu(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  check_gpu(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
  ncclUniqueId unique;
  static_assert(sizeof unique == nccl_id_bytes);
  std::memcpy(&unique, id, sizeof unique);
  ncclConfig_t nonblocking = config(false);
  check_nccl(ncclCommInitRankConfig(&root_, members, unique, own, &nonblocking), "ncclCommInitRankConfig", group_);
}

// All members are in the child, in the same order.
void Communicator::begin_to_split(const std::function<void()>& check) {
  wait_for_root(check);
  ncclConfig_t blocking = config(true);
  check_nccl(ncclCommSplit(root_, 0, member_, &calls_, &blocking), "ncclCommSplit", group_);
}

void Communicator::wait_until_connected(const std::function<void()>& check) {
  wait_for_root(check);
  TERRACE_CHECK(calls_ != nullptr, "NCCL has split the communicator of group {} into none", group_);
}

// Returns the state of the root and of its network, which the calls use too.
ncclResult_t Communicator::state_of(ncclComm_t root) const {
  ncclResult_t state = ncclInProgress;
  check_nccl(ncclCommGetAsyncError(root, &state), "ncclCommGetAsyncError", group_);
  check_nccl(state, "NCCL", group_);
  return state;
}

void Communicator::wait_for_root(const std::function<void()>& check) {
  while (state_of(root_) == ncclInProgress) {
    check();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Communicator::throw_if_failed() {
  const std::lock_guard lock(mutex_);
  if (root_ != nullptr) state_of(root_);
}

void Communicator::abort() {
  aborted_ = true;
  const std::lock_guard lock(mutex_);
  if (root_ != nullptr) ncclCommAbort(std::exchange(root_, nullptr));
}

void Communicator::close() {
  if (calls_ != nullptr) aborted_ ? ncclCommAbort(calls_) : ncclCommDestroy(calls_);
  calls_ = nullptr;
  ncclComm_t root = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::swap(root, root_);
  }
  if (root != nullptr) release(root);
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(std::exchange(stream_, nullptr)));
}

// Finalizes it, or aborts it where NCCL does not end that.
void Communicator::release(ncclComm_t root) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  ncclResult_t state = aborted_ ? ncclInternalError : ncclCommFinalize(root);
  while (state == ncclInProgress && !aborted_ && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
    if (ncclCommGetAsyncError(root, &state) != ncclSuccess) state = ncclInternalError;
  }
  state == ncclSuccess ? ncclCommDestroy(root) : ncclCommAbort(root);
}

}  // namespace terrace::comm
