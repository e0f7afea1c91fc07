// The World of processes that MPI connects, and the Comm of a group in it.
#include "terrace/comm/mpi/mpi.h"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/system/control_groups.h"
#include "terrace/base/system/cores.h"
#include "terrace/base/terminal/log.h"
#include "terrace/comm/mpi/engine.h"
#include "terrace/comm/mpi/gpu_group.h"

namespace terrace::comm {
namespace {

class MpiWork final : public Work::State {
 public:
  MpiWork(MpiEngine& engine, MpiOperationPointer operation) : engine_(engine), operation_(std::move(operation)) {}
  void wait() override;
  bool done() override { return engine_.is_done(*operation_); }
  std::optional<std::chrono::steady_clock::time_point> completed() const override {
    return operation_->on_gpu() ? std::nullopt : std::optional(operation_->completed());
  }
  void abandon() override { engine_.expect_failure(); }

 private:
  MpiEngine& engine_;
  MpiOperationPointer operation_;
};

void MpiWork::wait() {
  if (!operation_->on_gpu()) return engine_.wait(*operation_);
  engine_.throw_if_failed();
  operation_->let_gpu_wait();
}

class MpiComm final : public Comm {
 public:
  // A group of one member has no channel.
  MpiComm(MpiEngine& engine, FlightRecorder& flight, std::shared_ptr<MpiChannel> channel,
          std::shared_ptr<NcclChannel> gpus, std::optional<int> gpu, const mesh::Group& group, int64_t member)
      : Comm(group, member, &flight),
        engine_(engine),
        channel_(std::move(channel)),
        gpus_(std::move(gpus)),
        gpu_(gpu) {}
  ~MpiComm() override;

 private:
  Work start(const Call& call, Owner owner) override;
  MpiOperationPointer start_in_memory(const Call& call, Owner owner);
  MpiOperationPointer start_with_gpus(const Call& call);
  MpiOperationPointer start_through_host(const Call& call);

  MpiEngine& engine_;
  std::shared_ptr<MpiChannel> channel_;
  std::deque<MpiOperationPointer> on_gpu_;  // calls that may not be complete
  std::shared_ptr<NcclChannel> gpus_;       // null where no buffers are on a GPU, or NCCL refuses ranks that share one
  std::optional<int> gpu_;
};

MpiComm::~MpiComm() {
  if (!channel_) return;
  if (gpus_) {
    if (std::uncaught_exceptions() > 0) gpus_->abort();
    try {
      gpus_->wait_for_calls([this] { engine_.throw_if_failed(); });
      for (const MpiOperationPointer& call : on_gpu_) engine_.wait(*call);
    } catch (const CommError&) {
      gpus_->abort();
    }
    gpus_->close();
  }
  const MpiEngine::Lock lock = engine_.lock();
  engine_.remove_group(channel_);
  if (engine_.has_failed() || std::uncaught_exceptions() > 0) channel_->abandon();
  channel_.reset();
}

Work MpiComm::start(const Call& call, Owner owner) {
  engine_.throw_if_failed();
  const bool on_gpu = gpu_ && is_on_gpu(call.to != nullptr ? call.to : call.from);
  if (on_gpu && gpus_) return Work(std::make_unique<MpiWork>(engine_, start_with_gpus(call)));
  const MpiEngine::Lock lock = engine_.lock();
  MpiOperationPointer operation = on_gpu ? start_through_host(call) : start_in_memory(call, std::move(owner));
  engine_.add(operation);
  if (operation->is_complete()) return {};
  return Work(std::make_unique<MpiWork>(engine_, std::move(operation)));
}

MpiOperationPointer MpiComm::start_in_memory(const Call& call, Owner owner) {
  const bool checked = is_collective(call) && channel_->choices().check_calls;
  // With slot rings only this process writes into its buffers, and not after a failure.
  const bool used_by_mpi = channel_->rings() == nullptr && call.count > 0 && call.kind != Kind::barrier;
  if (used_by_mpi && !owner) return start_on_copies(channel_, call, checked);
  MpiOperationPointer operation = checked ? start_checked(channel_, call) : start_unchecked(channel_, call);
  operation->keep(std::move(owner));
  return operation;
}

MpiOperationPointer MpiComm::start_through_host(const Call& call) {
  const auto copy = [gpu = *gpu_](void* to, const void* from, size_t bytes) { copy_and_wait(gpu, to, from, bytes); };
  return start_on_copies(channel_, call, is_collective(call) && channel_->choices().check_calls, copy);
}

// Starts the call without the engine's lock, since a busy GPU may make the rank wait here.
MpiOperationPointer MpiComm::start_with_gpus(const Call& call) {
  if (is_collective(call) && channel_->choices().check_calls) {
    MpiOperationPointer comparison;
    {
      const MpiEngine::Lock lock = engine_.lock();
      comparison = start_comparison(channel_, call);
      engine_.add(comparison);
    }
    engine_.wait(*comparison);
  }
  while (!on_gpu_.empty() && on_gpu_.front()->is_complete()) on_gpu_.pop_front();
  return on_gpu_.emplace_back(start_on_gpu(engine_, channel_, gpus_, call));
}

class MpiWorld final : public World {
 public:
  MpiWorld(std::shared_ptr<MpiLibrary> library, const WorldOptions& options, const MpiLimits& limits);
  ~MpiWorld() override;

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  int64_t ranks_per_node() const override { return ranks_per_node_; }
  int64_t cores_per_rank() const override { return cores_per_rank_; }
  void use_gpu(int gpu) override;
  std::unique_ptr<Comm> connect(const mesh::Group& group, const std::vector<mesh::Direction>& directions) override;
  void abort(const std::string& reason) override { engine_->abort(reason); }

 private:
  void count_ranks();
  void count_cores(MPI_Comm node);
  void check_even(const std::vector<int>& ranks_there) const;
  std::vector<PeerIdentity> exchange_identities() const;
  bool on_one_machine(const mesh::Group& group) const;
  void wait_for_members(const std::shared_ptr<MpiChannel>& channel);

  std::shared_ptr<MpiLibrary> library_;
  const MpiChoices choices_;
  const int exceptions_ = std::uncaught_exceptions();
  const double timeout_seconds_;
  int rank_ = 0, size_ = 0, ranks_per_node_ = 0;
  int64_t cores_per_rank_ = 1;
  std::vector<int> machines_;  // by rank: the first rank of its machine
  std::vector<PeerIdentity> identities_;
  std::optional<int> gpu_;
  const bool may_share_gpus_;
  bool goes_through_host_ = false;  // since NCCL refuses the ranks of a GPU
  MPI_Comm world_communicator_ = MPI_COMM_NULL;
  std::map<std::pair<std::string, std::vector<int64_t>>, int64_t> connections_;
  std::unique_ptr<FlightRecorder> flight_;
  std::unique_ptr<MpiEngine> engine_;
};

MpiWorld::MpiWorld(std::shared_ptr<MpiLibrary> library, const WorldOptions& options, const MpiLimits& limits)
    : library_(std::move(library)),
      choices_{.rank_order = options.rank_order, .check_calls = options.check_calls, .limits = limits},
      timeout_seconds_(options.timeout_seconds),
      may_share_gpus_(options.share_gpus) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  count_ranks();
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world_communicator_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(world_communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  identities_ = exchange_identities();
  flight_ = std::make_unique<FlightRecorder>(rank_);
  engine_ = std::make_unique<MpiEngine>(*library_, options, *flight_, identities_);
}

MpiWorld::~MpiWorld() {
  if (std::uncaught_exceptions() > exceptions_) engine_->abort(fmt::format("rank {} ended with an error", rank_));
  const bool left_alone = !engine_->has_failed() && std::uncaught_exceptions() == exceptions_;
  const bool all_ended = engine_->end();
  if (!all_ended) library_->leave_unfinalized();
  engine_.reset();
  // This rank has finished its work but the run has failed. The launcher may take the exit code of any rank, so that of
  // this one must say that the run failed.
  if (left_alone && !all_ended) std::_Exit(static_cast<int>(ExitCode::peer_failed));
  if (all_ended) library_->retire(world_communicator_);
}

void MpiWorld::count_ranks() {
  MPI_Comm node;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  MPI_Comm_size(node, &ranks_per_node_);
  int lowest = 0, highest = 0;
  MPI_Allreduce(&rank_, &lowest, 1, MPI_INT, MPI_MIN, node);
  MPI_Allreduce(&rank_, &highest, 1, MPI_INT, MPI_MAX, node);
  count_cores(node);
  MPI_Comm_free(&node);
  machines_.resize(static_cast<size_t>(size_));
  MPI_Allgather(&lowest, 1, MPI_INT, machines_.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::vector<int> ranks_there(static_cast<size_t>(size_));
  MPI_Allgather(&ranks_per_node_, 1, MPI_INT, ranks_there.data(), 1, MPI_INT, MPI_COMM_WORLD);
  check_even(ranks_there);
  int scattered = highest - lowest + 1 == ranks_per_node_ ? -1 : rank_, worst = -1;
  MPI_Allreduce(&scattered, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (worst < 0) return;
  throw UserError::of(
      "the ranks of a machine must be neighbours, and those of rank {}'s machine are not: start with "
      "'mpirun --map-by slot' or 'srun --distribution=block'",
      worst);
}

// Counts a core that several ranks of the machine may use as an equal share for each of them.
void MpiWorld::count_cores(MPI_Comm node) {
  const CoreMask own = core_mask();
  std::vector<CoreMask> masks(static_cast<size_t>(ranks_per_node_));
  MPI_Allgather(&own, sizeof own, MPI_BYTE, masks.data(), sizeof own, MPI_BYTE, node);
  double cores = 0;
  for (size_t core = 0; core < own.size(); ++core) {
    if (!own[core]) continue;
    cores += 1.0 / static_cast<double>(std::ranges::count_if(masks, [&](const CoreMask& mask) { return mask[core]; }));
  }
  if (own.none()) cores = static_cast<double>(usable_cores()) / ranks_per_node_;
  if (const double quota = core_quota(); quota > 0) cores = std::min(cores, std::ceil(quota) / ranks_per_node_);
  // Three thirds of a core may sum to slightly less than one.
  const int64_t share = std::max<int64_t>(1, static_cast<int64_t>(cores + 1e-6));
  MPI_Allreduce(&share, &cores_per_rank_, 1, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
}

// The mesh derives machines from rank numbers. With unequal numbers of ranks, the ranks would compute different groups.
void MpiWorld::check_even(const std::vector<int>& ranks_there) const {
  if (std::ranges::count(ranks_there, ranks_there.front()) == size_) return;
  constexpr size_t most_machines = 16;
  std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  std::vector<std::array<char, MPI_MAX_PROCESSOR_NAME>> names(static_cast<size_t>(size_));
  MPI_Allgather(name.data(), sizeof name, MPI_BYTE, names.data(), sizeof name, MPI_BYTE, MPI_COMM_WORLD);
  std::vector<std::string> list;
  int fewest = size_;
  size_t machines = 0;
  for (size_t rank = 0; rank < ranks_there.size(); ++rank) {
    if (machines_[rank] != static_cast<int>(rank)) continue;
    fewest = std::min(fewest, ranks_there[rank]);
    if (++machines <= most_machines) list.push_back(fmt::format("{} has {}", names[rank].data(), ranks_there[rank]));
  }
  if (machines > most_machines) list.push_back(fmt::format("and so on, {} machines in all", machines));
  throw UserError::of(
      "the {} ranks are not spread evenly over the machines: {}; start as many on each, with 'mpirun -n {} --map-by "
      "ppr:{}:node' or 'srun -n {} --ntasks-per-node={}'",
      size_, fmt::join(list, ", "), fewest * static_cast<int>(machines), fewest, fewest * static_cast<int>(machines),
      fewest);
}

std::vector<PeerIdentity> MpiWorld::exchange_identities() const {
  std::vector<PeerIdentity> identities(static_cast<size_t>(size_));
  const PeerIdentity own = own_process_identity();
  check_mpi(MPI_Allgather(&own, sizeof own, MPI_BYTE, identities.data(), sizeof own, MPI_BYTE, MPI_COMM_WORLD),
            "MPI_Allgather");
  return identities;
}

// Whether both MPI and the kernel say that the members share a machine. MPI can be set to treat the processes of one
// machine as those of several.
bool MpiWorld::on_one_machine(const mesh::Group& group) const {
  const auto first = static_cast<size_t>(group.ranks.front());
  return std::ranges::all_of(group.ranks, [&](int64_t rank) {
    const auto at = static_cast<size_t>(rank);
    return machines_[at] == machines_[first] && identities_[at].kernel == identities_[first].kernel;
  });
}

// The place of a rank's GPU: its address, and the host on which NCCL takes it to be, as a hash (0: its machine).
struct GpuPlace {
  std::array<char, 32> address = {};
  uint64_t nccl_host = 0;

  auto operator<=>(const GpuPlace&) const = default;
};

GpuPlace place_of(int gpu) {
  GpuPlace place;
  gpu_bus_address(gpu).copy(place.address.data(), place.address.size() - 1);
  if (const char* host = std::getenv("NCCL_HOSTID"); host != nullptr && *host != '\0') {
    place.nccl_host = XXH3_64bits(host, std::strlen(host));
  }
  return place;
}

// Ranks can see different GPUs under one number, and one GPU under different numbers. NCCL connects two ranks on one
// GPU only if it takes them to be on different hosts.
void MpiWorld::use_gpu(int gpu) {
  if (!made_with_nccl()) throw UserError("this build of terrace has no NCCL, so its ranks cannot use GPUs");
  const GpuPlace own = place_of(gpu);
  std::vector<GpuPlace> places(static_cast<size_t>(size_));
  connect(mesh::all_ranks("gpus", size_), {})
      ->all_gather(&own, places.data(), sizeof own, Type::uint8, {.what = "addresses of GPUs"})
      .wait();
  std::map<std::pair<int, std::array<char, 32>>, int> rank_on;
  std::set<std::pair<int, GpuPlace>> taken;
  for (int rank = 0; rank < size_; ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (!taken.insert({machines_[at], places[at]}).second) goes_through_host_ = true;
    const auto [first, is_new] = rank_on.try_emplace({machines_[at], places[at].address}, rank);
    if (is_new || may_share_gpus_) continue;
    throw UserError::of(
        "ranks {} and {} use the same GPU ({}): start one rank for each GPU ('srun --gpus-per-task=1 "
        "--gpu-bind=closest', or 'mpirun --map-by ppr:N:node' for machines with N GPUs), or set layout.share_gpus = "
        "true, with which ranks exchange data through the machine's memory, which is slow",
        first->second, rank, places[at].address.data());
  }
  gpu_ = gpu;
}

uint64_t key_of(const mesh::Group& group, int64_t occurrence) {
  const std::string words = fmt::format("{} {} {}", occurrence, fmt::join(group.ranks, " "), group.name);
  return XXH3_64bits(words.data(), words.size());
}

std::unique_ptr<Comm> MpiWorld::connect(const mesh::Group& group, const std::vector<mesh::Direction>& directions) {
  std::vector<int64_t> sorted = group.ranks;
  std::ranges::sort(sorted);
  TERRACE_CHECK(!sorted.empty() && sorted.front() >= 0 && sorted.back() < size_ &&
                    std::ranges::adjacent_find(sorted) == sorted.end(),
                "group {} has ranks {} of a world of {}", group.name, fmt::join(group.ranks, ", "), size_);
  const auto own = std::ranges::find(group.ranks, rank_);
  TERRACE_CHECK(own != group.ranks.end(), "rank {} is not in group {}", rank_, group.name);
  const int64_t member = own - group.ranks.begin(), occurrence = connections_[{group.name, group.ranks}]++;
  std::shared_ptr<MpiChannel> channel;
  std::shared_ptr<NcclChannel> gpus;
  if (group.ranks.size() > 1) {
    const uint64_t key = key_of(group, occurrence);
    wait_for_members(std::make_shared<MpiChannel>(library_, group, member, choices_, world_communicator_, key));
    channel = std::make_shared<MpiChannel>(library_, group, member, choices_, world_communicator_, key);
    {
      const MpiEngine::Lock lock = engine_->lock();
      channel->separate();
      if (std::ssize(group.ranks) <= choices_.limits.ring_members && on_one_machine(group)) {
        channel->share(identities_[static_cast<size_t>(group.ranks.front())]);
      }
      engine_->add_group(channel);
    }
    if (gpu_ && !goes_through_host_) gpus = connect_gpus(*engine_, channel, directions, *gpu_, timeout_seconds_);
  }
  return std::make_unique<MpiComm>(*engine_, *flight_, std::move(channel), std::move(gpus), gpu_, group, member);
}

// MPI_Comm_create_group would wait for ever for a member that never calls it, so all members report first.
void MpiWorld::wait_for_members(const std::shared_ptr<MpiChannel>& channel) {
  engine_->throw_if_failed();
  const Call call = {.label = {.what = "connect"}, .sequence = 1};
  MpiOperationPointer arrival;
  {
    const MpiEngine::Lock lock = engine_->lock();
    arrival = start_arrival_barrier(channel, call);
    engine_->add_group(channel);
    engine_->add(arrival);
  }
  engine_->wait(*arrival);
}

}  // namespace

bool made_with_mpi() { return true; }

std::shared_ptr<MpiLibrary> start_mpi() { return std::make_shared<MpiLibrary>(); }

std::unique_ptr<World> make_mpi_world(std::shared_ptr<MpiLibrary> library, const WorldOptions& options,
                                      const MpiLimits& limits) {
  return std::make_unique<MpiWorld>(std::move(library), options, limits);
}

std::unique_ptr<World> make_mpi_world(const WorldOptions& options) { return make_mpi_world(start_mpi(), options); }

}  // namespace terrace::comm
