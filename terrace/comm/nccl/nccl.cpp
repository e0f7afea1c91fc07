// The calls of a group on its NCCL communicators.
#include "terrace/comm/nccl/nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <future>
#include <thread>
#include <utility>

#include "gpu_runtime.h"
#include "terrace/base/error.h"
#include "terrace/comm/doubling.h"
#include "terrace/comm/nccl/communicator.h"
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

// The communicator of one direction, in which the sender is member 0.
struct DirectionStream {
  DirectionStream(const mesh::Direction& direction, const std::string& group) : ends(direction), used(group) {}

  mesh::Direction ends;
  Communicator used;
};

}  // namespace

struct NcclChannel::State {
  State(const mesh::Group& members, int64_t own, int device, bool in_rank_order)
      : group(members), member(own), gpu(device), rank_order(in_rank_order), collectives(members.name) {}
  ~State() { close(); }

  void close();
  int64_t size() const { return static_cast<int64_t>(group.ranks.size()); }
  void connect(const NcclIds& ids, const std::vector<mesh::Direction>& all_directions,
               const std::function<void()>& check);
  void make_first_messages();
  void abort();
  Communicator& communicator_for(const Call& call);
  void enqueue_message(const Call& call, const Communicator& used) const;
  void check(ncclResult_t result, const char* call) const { check_nccl(result, call, group.name); }
  void throw_if_aborted() const;

  void enqueue(const Call& call, const Communicator& used);
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
  std::atomic<bool> aborted = false, closes = false;
  Communicator collectives;
  std::deque<DirectionStream> directions;  // those of this member
  EndMarks* ends = nullptr;                // of started calls
  cudaEvent_t earlier = nullptr;           // work of the default stream, for which a call waits
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
  for (DirectionStream& direction : directions) direction.used.close();
  collectives.close();
  if (earlier != nullptr) static_cast<void>(cudaEventDestroy(earlier));
  static_cast<void>(cudaFree(terms));
  static_cast<void>(cudaFree(probes));
}

// All at once, each by a thread: NCCL frees memory for one, which waits until the GPU has left the calls of all.
void NcclChannel::State::abort() {
  if (aborted.exchange(true)) return;
  std::vector<std::thread> threads;
  for (DirectionStream& direction : directions) threads.emplace_back([&direction] { direction.used.abort(); });
  collectives.abort();
  for (std::thread& thread : threads) thread.join();
}

// Receives are started long before their messages are sent. Each direction has a communicator of its own, so that a
// message never waits behind a receive from another member.
Communicator& NcclChannel::State::communicator_for(const Call& call) {
  if (call.kind != Kind::send && call.kind != Kind::receive) return collectives;
  const bool sends = call.kind == Kind::send;
  const mesh::Direction direction{.from = sends ? member : call.peer, .to = sends ? call.peer : member};
  const auto found = std::ranges::find(directions, direction, &DirectionStream::ends);
  TERRACE_CHECK(found != directions.end(), "group {} was connected without a direction from {} to {}", group.name,
                direction.from, direction.to);
  return found->used;
}

void NcclChannel::State::throw_if_aborted() const {
  if (aborted) throw CommError(fmt::format("the calls of group {} were ended", group.name));
}

// NCCL connects two members in their first message, and the enqueueing of one waits for the other end. All members have
// the directions in the same order, so the first one that is not connected always can be.
void NcclChannel::State::make_first_messages() {
  check_gpu(cudaSetDevice(gpu), "cudaSetDevice");
  char* byte = static_cast<char*>(probes);
  for (const DirectionStream& own : directions) {
    throw_if_aborted();
    const Kind kind = own.ends.from == member ? Kind::send : Kind::receive;
    enqueue_message({.kind = kind, .type = Type::uint8, .count = 1, .from = byte, .to = byte}, own.used);
    ++byte;
  }
  if (!rank_order) return;
  throw_if_aborted();
  exchange_blocks(
      {.kind = Kind::all_to_all, .type = Type::uint8, .count = 1, .from = terms, .to = at(terms, size(), Type::uint8)});
}

void NcclChannel::State::connect(const NcclIds& ids, const std::vector<mesh::Direction>& all_directions,
                                 const std::function<void()>& check_others) {
  TERRACE_CHECK(ids.size() == (1 + all_directions.size()) * nccl_id_bytes, "{} bytes of ids for {} directions",
                ids.size(), all_directions.size());
  check_gpu(cudaSetDevice(gpu), "cudaSetDevice");
  for (const mesh::Direction& direction : all_directions) {
    if (direction.from == member || direction.to == member) directions.emplace_back(direction, group.name);
  }
  // The memory is allocated here, since a later cudaMalloc could wait for kernels that run on the GPU.
  if (!directions.empty()) check_gpu(cudaMalloc(&probes, directions.size()), "cudaMalloc");
  ends = &end_marks_of(gpu);
  earlier = make_event();
  if (rank_order) check_gpu(cudaMalloc(&terms, terms_bytes), "cudaMalloc");
  std::vector<Communicator*> all = {&collectives};
  collectives.begin_to_connect(ids.data(), static_cast<int>(size()), static_cast<int>(member), NCCL_CONFIG_UNDEF_INT);
  for (DirectionStream& own : directions) {
    const auto number = static_cast<size_t>(std::ranges::find(all_directions, own.ends) - all_directions.begin());
    own.used.begin_to_connect(ids.data() + (1 + number) * nccl_id_bytes, 2, own.ends.from == member ? 0 : 1,
                              multiprocessors_of_message);
    all.push_back(&own.used);
  }
  for (Communicator* const one : all) one->begin_to_split(check_others);
  for (Communicator* const one : all) one->wait_until_connected(check_others);
  // Another thread sends the first messages, since each message waits for its other end.
  std::future<void> first_messages = std::async(std::launch::async, [this] { make_first_messages(); });
  try {
    while (first_messages.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) check_others();
  } catch (...) {
    abort();  // which releases the thread
    throw;
  }
  first_messages.get();
}

void NcclChannel::State::send(int64_t peer, const char* data, int64_t count, Type type) const {
  check(ncclSend(data, static_cast<size_t>(count), type_of(type), static_cast<int>(peer), collectives.calls(),
                 collectives.stream()),
        "ncclSend");
}

void NcclChannel::State::receive(int64_t peer, char* data, int64_t count, Type type) const {
  check(ncclRecv(data, static_cast<size_t>(count), type_of(type), static_cast<int>(peer), collectives.calls(),
                 collectives.stream()),
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
    check_gpu(cudaMemcpyAsync(block(member), call.from, bytes, cudaMemcpyDeviceToDevice, collectives.stream()),
              "cudaMemcpyAsync");
  }
  for (const DoublingStep& step : doubling_steps(size(), member)) {
    check(ncclGroupStart(), "ncclGroupStart");
    for (const auto& [begin, count] : step.sent) send(step.to, block(begin), count * call.count, call.type);
    for (const auto& [begin, count] : step.received) receive(step.from, block(begin), count * call.count, call.type);
    check(ncclGroupEnd(), "ncclGroupEnd");
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
    sum_on_gpu(call.type, terms, size(), own_count, at(to, done, call.type), collectives.stream());
    check_gpu(cudaGetLastError(), "the sum of terms");
  }
}

void NcclChannel::State::broadcast_parts(const Call& call, const std::vector<int64_t>& starts) {
  check(ncclGroupStart(), "ncclGroupStart");
  for (size_t of = 0; of + 1 < starts.size(); ++of) {
    const int64_t count = starts[of + 1] - starts[of];
    if (count == 0) continue;
    char* const part = at(call.to, starts[of], call.type);
    check(ncclBroadcast(part, part, static_cast<size_t>(count), type_of(call.type), static_cast<int>(of),
                        collectives.calls(), collectives.stream()),
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

void NcclChannel::State::enqueue_message(const Call& call, const Communicator& used) const {
  const auto count = static_cast<size_t>(call.count);
  if (call.kind == Kind::send) {
    return check(ncclSend(call.from, count, type_of(call.type), 1, used.calls(), used.stream()), "ncclSend");
  }
  check(ncclRecv(call.to, count, type_of(call.type), 0, used.calls(), used.stream()), "ncclRecv");
}

void NcclChannel::State::enqueue(const Call& call, const Communicator& used) {
  ncclComm_t const communicator = used.calls();
  cudaStream_t const stream = used.stream();
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
  StartedCall(std::shared_ptr<State> state, Communicator& used)
      : state_(std::move(state)), used_(used), end_(state_->ends->put(used.stream())) {}
  ~StartedCall() override { state_->ends->give_back(end_); }
  StartedCall(const StartedCall&) = delete;
  StartedCall& operator=(const StartedCall&) = delete;

  bool done() override {
    state_->throw_if_aborted();
    if (end_.reached()) return true;
    used_.throw_if_failed();
    return false;
  }

  void let_default_stream_wait() override {
    check_gpu(cudaSetDevice(state_->gpu), "cudaSetDevice");
    check_gpu(cudaStreamWaitEvent(default_stream, end_.event, 0), "cudaStreamWaitEvent");
  }

 private:
  std::shared_ptr<State> state_;
  Communicator& used_;  // lies in the state
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
  Communicator& used = state_->communicator_for(call);
  check_gpu(cudaEventRecord(state_->earlier, default_stream), "cudaEventRecord");
  check_gpu(cudaStreamWaitEvent(used.stream(), state_->earlier, 0), "cudaStreamWaitEvent");
  if (call.count > 0) state_->enqueue(call, used);
  return std::make_shared<StartedCall<State>>(state_, used);
}

void NcclChannel::wait_for_calls(const std::function<void()>& check) {
  check_gpu(cudaSetDevice(state_->gpu), "cudaSetDevice");
  const auto wait = [&](const Communicator& used) {
    while (true) {
      state_->throw_if_aborted();
      const cudaError_t result = cudaStreamQuery(used.stream());
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

void NcclChannel::close() { state_->close(); }

void NcclChannel::abort() { state_->abort(); }

}  // namespace terrace::comm
