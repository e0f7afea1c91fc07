// Calls on NCCL communicators. They are nonblocking, so that every call returns after an abort.
#include "terrace/comm/nccl/nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "gpu_runtime.h"
#include "terrace/base/error.h"
#include "terrace/comm/doubling.h"
#include "terrace/comm/nccl/end_marks.h"
#include "terrace/comm/nccl/sum.h"

namespace terrace::comm {
namespace {

constexpr cudaStream_t default_stream = nullptr;
// Multiprocessors that a message between two members may take: few, since a receive is started long before its message
// comes and keeps them as long. Whether these fill a link between two GPUs has not been measured; NCCL_MAX_CTAS
// overrides them.
constexpr int multiprocessors_of_message = 4;
constexpr int64_t terms_bytes = int64_t{32} << 20;  // memory for the terms that are added at once

ncclDataType_t type_of(Type type) {
  switch (type) {
    case Type::fp64:
      return ncclDouble;
    case Type::fp32:
      return ncclFloat;
    case Type::bf16:
      return ncclBfloat16;
    case Type::fp16:
      return ncclHalf;
    case Type::int64:
      return ncclInt64;
    case Type::int32:
      return ncclInt32;
    case Type::uint8:
      break;
  }
  return ncclUint8;
}

// A communicator and the stream on which its calls run one after another.
struct CommunicatorStream {
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
};

// In the communicator of a direction the sender is member 0.
struct DirectionStream {
  mesh::Direction ends;
  CommunicatorStream used = {};
};

}  // namespace

struct NcclChannel::State {
  State(const mesh::Group& members, int64_t own, int device, bool in_rank_order)
      : group(members), member(own), gpu(device), rank_order(in_rank_order) {}
  ~State() { close(); }

  void close();
  int64_t size() const { return static_cast<int64_t>(group.ranks.size()); }
  void connect(const NcclIds& ids, const std::vector<mesh::Direction>& all_directions,
               const std::function<void()>& check);
  void begin_to_connect(const char* id, int members, int own, int most_multiprocessors, CommunicatorStream& used) const;
  void connect_ends(const DirectionStream& direction, const std::function<void()>& check) const;
  void wait_until_enqueued(const CommunicatorStream& used, const std::function<void()>& check = {}) const;
  void release(CommunicatorStream& used) const;
  const CommunicatorStream& communicator_for(const Call& call) const;
  void enqueue_message(const Call& call, const CommunicatorStream& used) const;
  void check(ncclResult_t result, const char* call) const;
  void throw_if_aborted() const;

  void enqueue(const Call& call, const CommunicatorStream& used);
  void send(int64_t peer, const char* data, int64_t count, Type type) const;
  void receive(int64_t peer, char* data, int64_t count, Type type) const;
  void exchange_blocks(const Call& call);
  void gather_by_doubling(const Call& call);
  void sum_in_rank_order(const Call& call);
  void sum_own_part(const Call& call, const std::vector<int64_t>& starts, void* to);
  void broadcast_parts(const Call& call, const std::vector<int64_t>& starts);
  int64_t index_in_rank_order(int64_t of_member) const;

  const mesh::Group group;
  const int64_t member;
  const int gpu;
  const bool rank_order;
  std::mutex mutex;  // guards all use of the communicators
  std::atomic<bool> aborted = false, closes = false;
  CommunicatorStream collectives;
  std::vector<DirectionStream> directions;  // those of this member
  EndMarks* ends = nullptr;                 // of started calls
  cudaEvent_t earlier = nullptr;            // work of the default stream, for which a call waits
  void* terms = nullptr;
  void* probes = nullptr;  // a byte for the message that connects the ends of each direction
};

namespace {

const char* at(const void* start, int64_t element, Type type) {
  return static_cast<const char*>(start) + element * size_of(type);
}
char* at(void* start, int64_t element, Type type) { return static_cast<char*>(start) + element * size_of(type); }

}  // namespace

void NcclChannel::State::close() {
  if (closes.exchange(true)) return;
  static_cast<void>(cudaSetDevice(gpu));
  for (DirectionStream& direction : directions) release(direction.used);
  release(collectives);
  if (earlier != nullptr) static_cast<void>(cudaEventDestroy(earlier));
  static_cast<void>(cudaFree(terms));
  static_cast<void>(cudaFree(probes));
}

// Finalizes the communicator with the other members, or aborts it where they do not take part.
void NcclChannel::State::release(CommunicatorStream& used) const {
  if (used.communicator != nullptr) {
    try {
      throw_if_aborted();
      check(ncclCommFinalize(used.communicator), "ncclCommFinalize");
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      wait_until_enqueued(used, [&] {
        if (std::chrono::steady_clock::now() > end) throw CommError("other members do not finalize");
      });
      ncclCommDestroy(used.communicator);
    } catch (const CommError&) {
      ncclCommAbort(used.communicator);
    }
    used.communicator = nullptr;
  }
  if (used.stream != nullptr) static_cast<void>(cudaStreamDestroy(used.stream));
}

// Receives are started long before their messages are sent. Each direction has a communicator of its own, so that a
// message never waits behind a receive from another member.
const CommunicatorStream& NcclChannel::State::communicator_for(const Call& call) const {
  if (call.kind != Kind::send && call.kind != Kind::receive) return collectives;
  const bool sends = call.kind == Kind::send;
  const mesh::Direction direction{.from = sends ? member : call.peer, .to = sends ? call.peer : member};
  const auto found = std::ranges::find(directions, direction, &DirectionStream::ends);
  TERRACE_CHECK(found != directions.end(), "group {} was connected without a direction from {} to {}", group.name,
                direction.from, direction.to);
  return found->used;
}

void NcclChannel::State::check(ncclResult_t result, const char* call) const {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* details = ncclGetLastError(collectives.communicator);
  throw CommError(fmt::format("{} failed in group {}: {}{}{}", call, group.name, ncclGetErrorString(result),
                              details != nullptr && *details != '\0' ? ": " : "", details != nullptr ? details : ""));
}

void NcclChannel::State::throw_if_aborted() const {
  if (aborted) throw CommError(fmt::format("the calls of group {} were ended", group.name));
}

// Waits until the last operation of the communicator is done or enqueued on the GPU.
void NcclChannel::State::wait_until_enqueued(const CommunicatorStream& used,
                                             const std::function<void()>& check_others) const {
  ncclResult_t state = ncclInProgress;
  while (true) {
    check(ncclCommGetAsyncError(used.communicator, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) break;
    throw_if_aborted();
    if (check_others) {
      check_others();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      std::this_thread::yield();
    }
  }
  check(state, "NCCL");
}

// The blocks of transfers come before those of computations that are waiting, so that none is late because the GPU is
// full.
void NcclChannel::State::begin_to_connect(const char* id, int members, int own, int most_multiprocessors,
                                          CommunicatorStream& used) const {
  int least = 0, greatest = 0;
  check_gpu(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  check_gpu(cudaStreamCreateWithPriority(&used.stream, cudaStreamNonBlocking, greatest),
            "cudaStreamCreateWithPriority");
  ncclUniqueId unique;
  static_assert(sizeof unique == nccl_id_bytes);
  std::memcpy(&unique, id, sizeof unique);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = most_multiprocessors;
  check(ncclCommInitRankConfig(&used.communicator, members, unique, own, &config), "ncclCommInitRankConfig");
}

// Makes both ends of the direction call it at the same place, so neither waits for more than the other's arrival.
void NcclChannel::State::connect_ends(const DirectionStream& direction,
                                      const std::function<void()>& check_others) const {
  const bool sends = direction.ends.from == member;
  char* const byte = at(probes, &direction - directions.data(), Type::uint8);
  enqueue_message(
      {.kind = sends ? Kind::send : Kind::receive, .type = Type::uint8, .count = 1, .from = byte, .to = byte},
      direction.used);
  wait_until_enqueued(direction.used, check_others);
}

void NcclChannel::State::connect(const NcclIds& ids, const std::vector<mesh::Direction>& all_directions,
                                 const std::function<void()>& check_others) {
  TERRACE_CHECK(ids.size() == (1 + all_directions.size()) * nccl_id_bytes, "{} bytes of ids for {} directions",
                ids.size(), all_directions.size());
  check_gpu(cudaSetDevice(gpu), "cudaSetDevice");
  for (const mesh::Direction& direction : all_directions) {
    if (direction.from == member || direction.to == member) directions.push_back({direction});
  }
  // The memory is allocated here, since a later cudaMalloc could wait for kernels that run on the GPU.
  if (!directions.empty()) check_gpu(cudaMalloc(&probes, directions.size()), "cudaMalloc");
  ends = &end_marks_of(gpu);
  earlier = make_event();
  if (rank_order) check_gpu(cudaMalloc(&terms, terms_bytes), "cudaMalloc");
  begin_to_connect(ids.data(), static_cast<int>(size()), static_cast<int>(member), NCCL_CONFIG_UNDEF_INT, collectives);
  for (DirectionStream& own : directions) {
    const auto number = static_cast<size_t>(std::ranges::find(all_directions, own.ends) - all_directions.begin());
    begin_to_connect(ids.data() + (1 + number) * nccl_id_bytes, 2, own.ends.from == member ? 0 : 1,
                     multiprocessors_of_message, own.used);
  }
  wait_until_enqueued(collectives, check_others);
  for (const DirectionStream& own : directions) wait_until_enqueued(own.used, check_others);
  // All members have the directions in the same order, so the first one that is not connected always can be.
  for (const DirectionStream& own : directions) connect_ends(own, check_others);
  if (!rank_order) return;
  exchange_blocks(
      {.kind = Kind::all_to_all, .type = Type::uint8, .count = 1, .from = terms, .to = at(terms, size(), Type::uint8)});
  wait_until_enqueued(collectives, check_others);
}

void NcclChannel::State::send(int64_t peer, const char* data, int64_t count, Type type) const {
  const auto& [communicator, stream] = collectives;
  check(ncclSend(data, static_cast<size_t>(count), type_of(type), static_cast<int>(peer), communicator, stream),
        "ncclSend");
}

void NcclChannel::State::receive(int64_t peer, char* data, int64_t count, Type type) const {
  const auto& [communicator, stream] = collectives;
  check(ncclRecv(data, static_cast<size_t>(count), type_of(type), static_cast<int>(peer), communicator, stream),
        "ncclRecv");
}

// Blocks have the same order at the sender and the receiver; NCCL runs the operations of a group together.
void NcclChannel::State::exchange_blocks(const Call& call) {
  check(ncclGroupStart(), "ncclGroupStart");
  for (int64_t other = 0; other < size(); ++other) {
    send(other, at(call.from, other * call.count, call.type), call.count, call.type);
    receive(other, at(call.to, other * call.count, call.type), call.count, call.type);
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
}

// The stream orders the steps, so that each sends what the one before has received, without the rank.
void NcclChannel::State::gather_by_doubling(const Call& call) {
  const auto block = [&](int64_t number) { return at(call.to, number * call.count, call.type); };
  if (call.from != block(member)) {
    const auto bytes = static_cast<size_t>(call.count * size_of(call.type));
    check_gpu(cudaMemcpyAsync(block(member), call.from, bytes, cudaMemcpyDeviceToDevice, collectives.stream),
              "cudaMemcpyAsync");
  }
  for (const DoublingStep& step : doubling_steps(size(), member)) {
    check(ncclGroupStart(), "ncclGroupStart");
    for (const auto& [begin, count] : step.sent) send(step.to, block(begin), count * call.count, call.type);
    for (const auto& [begin, count] : step.received) receive(step.from, block(begin), count * call.count, call.type);
    check(ncclGroupEnd(), "ncclGroupEnd");
    wait_until_enqueued(collectives);
  }
}

int64_t NcclChannel::State::index_in_rank_order(int64_t of_member) const {
  const int64_t own = group.ranks[static_cast<size_t>(of_member)];
  return std::ranges::count_if(group.ranks, [&](int64_t rank) { return rank < own; });
}

// Each member receives all terms of its part, a piece at a time, and adds them. Part m is [starts[m], starts[m + 1]).
void NcclChannel::State::sum_own_part(const Call& call, const std::vector<int64_t>& starts, void* to) {
  const auto part = [&](int64_t of) {
    return std::pair(starts[static_cast<size_t>(of)], starts[static_cast<size_t>(of) + 1]);
  };
  const auto [own_begin, own_end] = part(member);
  const int64_t piece = terms_bytes / size() / size_of(call.type);
  int64_t longest = 0;
  for (int64_t of = 0; of < size(); ++of) longest = std::max(longest, part(of).second - part(of).first);
  for (int64_t done = 0; done < longest; done += piece) {
    const int64_t own_count = std::clamp<int64_t>(own_end - own_begin - done, 0, piece);
    const auto term = [&](int64_t of) { return at(terms, index_in_rank_order(of) * own_count, call.type); };
    check(ncclGroupStart(), "ncclGroupStart");
    for (int64_t other = 0; other < size(); ++other) {
      const auto [begin, end] = part(other);
      const int64_t count = std::clamp<int64_t>(end - begin - done, 0, piece);
      if (count > 0) send(other, at(call.from, begin + done, call.type), count, call.type);
      if (own_count > 0) receive(other, term(other), own_count, call.type);
    }
    check(ncclGroupEnd(), "ncclGroupEnd");
    wait_until_enqueued(collectives);
    sum_on_gpu(call.type, terms, size(), own_count, at(to, done, call.type), collectives.stream);
    check_gpu(cudaGetLastError(), "the sum of terms");
  }
}

void NcclChannel::State::broadcast_parts(const Call& call, const std::vector<int64_t>& starts) {
  const auto& [communicator, stream] = collectives;
  check(ncclGroupStart(), "ncclGroupStart");
  for (size_t of = 0; of + 1 < starts.size(); ++of) {
    const int64_t count = starts[of + 1] - starts[of];
    if (count == 0) continue;
    char* const part = at(call.to, starts[of], call.type);
    check(ncclBroadcast(part, part, static_cast<size_t>(count), type_of(call.type), static_cast<int>(of), communicator,
                        stream),
          "ncclBroadcast");
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
}

void NcclChannel::State::sum_in_rank_order(const Call& call) {
  std::vector<int64_t> starts;
  const bool scatter = call.kind == Kind::reduce_scatter;
  const int64_t part = scatter ? call.count : (call.count + size() - 1) / size();
  for (int64_t of = 0; of <= size(); ++of) {
    starts.push_back(scatter ? of * part : std::min(of * part, call.count));
  }
  if (scatter) return sum_own_part(call, starts, call.to);
  sum_own_part(call, starts, at(call.to, starts[static_cast<size_t>(member)], call.type));
  broadcast_parts(call, starts);
}

void NcclChannel::State::enqueue_message(const Call& call, const CommunicatorStream& used) const {
  const auto count = static_cast<size_t>(call.count);
  if (call.kind == Kind::send) {
    return check(ncclSend(call.from, count, type_of(call.type), 1, used.communicator, used.stream), "ncclSend");
  }
  check(ncclRecv(call.to, count, type_of(call.type), 0, used.communicator, used.stream), "ncclRecv");
}

void NcclChannel::State::enqueue(const Call& call, const CommunicatorStream& used) {
  const auto& [communicator, stream] = used;
  const auto count = static_cast<size_t>(call.count);
  const ncclDataType_t type = type_of(call.type);
  const auto peer = static_cast<int>(call.peer);
  const bool sum = call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter;
  if (sum && rank_order) return sum_in_rank_order(call);
  switch (call.kind) {
    case Kind::all_reduce:
      return check(ncclAllReduce(call.from, call.to, count, type, ncclSum, communicator, stream), "ncclAllReduce");
    case Kind::reduce_scatter:
      return check(ncclReduceScatter(call.from, call.to, count, type, ncclSum, communicator, stream),
                   "ncclReduceScatter");
    case Kind::all_gather:
      if (call.gathering == Gathering::doubling) return gather_by_doubling(call);
      return check(ncclAllGather(call.from, call.to, count, type, communicator, stream), "ncclAllGather");
    case Kind::all_to_all:
      return exchange_blocks(call);
    case Kind::broadcast:
      return check(ncclBroadcast(call.from, call.to, count, type, peer, communicator, stream), "ncclBroadcast");
    case Kind::send:
    case Kind::receive:
      return enqueue_message(call, used);
    case Kind::barrier:
      break;
  }
  TERRACE_CHECK(false, "{} moves no memory of a GPU", name_of(call.kind));
}

namespace {

template <typename State>
class StartedCall final : public NcclCall {
 public:
  StartedCall(std::shared_ptr<State> state, const CommunicatorStream& used)
      : state_(std::move(state)), used_(used), end_(state_->ends->put(used.stream)) {}
  ~StartedCall() override { state_->ends->give_back(end_); }
  StartedCall(const StartedCall&) = delete;
  StartedCall& operator=(const StartedCall&) = delete;

  bool done() override {
    state_->throw_if_aborted();
    if (end_.reached()) return true;
    const std::unique_lock lock(state_->mutex, std::try_to_lock);
    if (!lock || state_->aborted) return false;
    ncclResult_t error = ncclSuccess;
    state_->check(ncclCommGetAsyncError(used_.communicator, &error), "ncclCommGetAsyncError");
    state_->check(error, "NCCL");
    return false;
  }

  void let_default_stream_wait() override {
    check_gpu(cudaSetDevice(state_->gpu), "cudaSetDevice");
    check_gpu(cudaStreamWaitEvent(default_stream, end_.event, 0), "cudaStreamWaitEvent");
  }

 private:
  std::shared_ptr<State> state_;
  const CommunicatorStream& used_;  // lies in the state
  const EndMark end_;
};

}  // namespace

bool made_with_nccl() { return true; }

NcclIds make_nccl_ids(size_t communicators) {
  NcclIds ids(communicators * nccl_id_bytes);
  for (size_t i = 0; i < communicators; ++i) {
    ncclUniqueId unique;
    const ncclResult_t result = ncclGetUniqueId(&unique);
    if (result != ncclSuccess) {
      throw CommError(
          fmt::format("ncclGetUniqueId failed: {}: {}", ncclGetErrorString(result), ncclGetLastError(nullptr)));
    }
    std::memcpy(ids.data() + i * nccl_id_bytes, &unique, sizeof unique);
  }
  return ids;
}

NcclChannel::NcclChannel(const NcclIds& ids, const mesh::Group& group, int64_t member,
                         const std::vector<mesh::Direction>& directions, int gpu, bool rank_order,
                         const std::function<void()>& check)
    : state_(std::make_shared<State>(group, member, gpu, rank_order)) {
  try {
    state_->connect(ids, directions, check);
  } catch (...) {
    abort();
    throw;
  }
}

NcclChannel::~NcclChannel() = default;

std::shared_ptr<NcclCall> NcclChannel::start(const Call& call) {
  state_->throw_if_aborted();
  check_gpu(cudaSetDevice(state_->gpu), "cudaSetDevice");
  const CommunicatorStream& used = state_->communicator_for(call);
  // Without the lock, which abort() takes: these wait for the GPU while its queue of launches is full.
  check_gpu(cudaEventRecord(state_->earlier, default_stream), "cudaEventRecord");
  check_gpu(cudaStreamWaitEvent(used.stream, state_->earlier, 0), "cudaStreamWaitEvent");
  {
    const std::lock_guard lock(state_->mutex);
    state_->throw_if_aborted();
    if (call.count > 0) state_->enqueue(call, used);
    state_->wait_until_enqueued(used);
  }
  return std::make_shared<StartedCall<State>>(state_, used);
}

void NcclChannel::wait_for_calls(const std::function<void()>& check) {
  check_gpu(cudaSetDevice(state_->gpu), "cudaSetDevice");
  const auto wait = [&](const CommunicatorStream& used) {
    while (true) {
      state_->throw_if_aborted();
      const cudaError_t result = cudaStreamQuery(used.stream);
      if (result == cudaSuccess) return;
      static_cast<void>(cudaGetLastError());  // HIP keeps what is no error as the last one
      if (result != cudaErrorNotReady) check_gpu(result, "cudaStreamQuery");
      check();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  };
  wait(state_->collectives);
  for (const DirectionStream& direction : state_->directions) wait(direction.used);
}

void NcclChannel::close() {
  const std::lock_guard lock(state_->mutex);
  state_->close();
}

void NcclChannel::abort() {
  // A thread that holds the lock and waits for NCCL sees the flag and returns; so does one that closes the channel,
  // which then aborts itself. One that waits for the GPU returns only after the abort.
  if (state_->aborted.exchange(true) || state_->closes) return;
  std::unique_lock lock(state_->mutex, std::defer_lock);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!lock.try_lock() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto abort_one = [](CommunicatorStream& used) {
    if (used.communicator != nullptr) ncclCommAbort(std::exchange(used.communicator, nullptr));
  };
  abort_one(state_->collectives);
  for (DirectionStream& direction : state_->directions) abort_one(direction.used);
}

}  // namespace terrace::comm
