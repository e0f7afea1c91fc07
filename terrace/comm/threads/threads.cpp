// Starts and ends the threads of the ranks, each with its own World.
#include "terrace/comm/threads/threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/system/cores.h"
#include "terrace/base/system/sleeping_threads.h"
#include "terrace/base/terminal/log.h"
#include "terrace/comm/threads/thread_comm.h"
#include "terrace/comm/threads/thread_ranks.h"

namespace terrace::comm {
namespace {

class ThreadWorld : public World {
 public:
  ThreadWorld(ThreadRanks& all, int64_t rank) : all_(all), rank_(rank) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return all_.size(); }
  int64_t ranks_per_node() const override { return all_.size(); }
  int64_t cores_per_rank() const override { return std::max<int64_t>(1, usable_cores() / size()); }
  std::unique_ptr<Comm> connect(const mesh::Group& group, const std::vector<mesh::Direction>& directions) override;
  void use_gpu(int gpu) override;
  void abort(const std::string& reason) override { all_.abort(reason, rank_); }

 private:
  ThreadRanks& all_;
  const int64_t rank_;
  std::map<const mesh::Group*, int64_t> connections_;  // how many of each shared group
};

std::unique_ptr<Comm> ThreadWorld::connect(const mesh::Group& group, const std::vector<mesh::Direction>&) {
  const mesh::Group& shared = all_.shared(group);
  const auto own = std::find(shared.ranks.begin(), shared.ranks.end(), rank_);
  TERRACE_CHECK(own != shared.ranks.end(), "rank {} is not in group {}", rank_, group.name);
  return std::make_unique<ThreadComm>(all_, all_.channel(shared, connections_[&shared]++), own - shared.ranks.begin());
}

void ThreadWorld::use_gpu(int) {
  if (size() == 1) return;
  throw UserError::of(
      "{} ranks that are threads of one process cannot use GPUs: start them as processes, with mpirun -n {} or srun -n "
      "{} and without --ranks, or let them compute on the CPU",
      size(), size(), size());
}

class SoloWorld : public World {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  int64_t ranks_per_node() const override { return 1; }
  int64_t cores_per_rank() const override { return usable_cores(); }
  void use_gpu(int) override {}
  std::unique_ptr<Comm> connect(const mesh::Group& group, const std::vector<mesh::Direction>& directions) override {
    return thread_world_.connect(group, directions);
  }
  void abort(const std::string& reason) override { thread_world_.abort(reason); }

 private:
  ThreadRanks all_{1, {}};
  ThreadWorld thread_world_{all_, 0};
};

void run_rank(ThreadRanks& all, int64_t rank, const std::function<void(World&)>& rank_main) {
  std::exception_ptr failure;
  all.turns().enter();
  try {
    ThreadWorld world(all, rank);
    rank_main(world);
  } catch (...) {
    failure = std::current_exception();
  }
  all.turns().leave();
  all.end(rank, failure);
}

// A thread that computes for ever can only be ended together with its process.
[[noreturn]] void give_up_on(const ThreadRanks& all) {
  spdlog::error("{}; {:g} s later ranks {} have not ended, so the process is ended", all.reason(-1),
                all.patience_seconds(), fmt::join(all.still_running(), ", "));
  std::_Exit(static_cast<int>(ExitCode::peer_failed));
}

}  // namespace

void run_threads(int64_t ranks, const WorldOptions& options, const std::function<void(World&)>& rank_main) {
  TERRACE_CHECK(ranks >= 1, "{} ranks", ranks);
  expect_sleeping_threads(ranks);
  ThreadRanks all(ranks, options);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(ranks));
  try {
    for (int64_t rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { run_rank(all, rank, rank_main); });
  } catch (const std::system_error&) {
    all.end(static_cast<int64_t>(threads.size()), std::current_exception());
  }
  if (!all.wait_for_end()) give_up_on(all);
  for (std::thread& thread : threads) thread.join();
  if (const std::exception_ptr failure = all.failure()) std::rethrow_exception(failure);
}

std::unique_ptr<World> make_solo_world() { return std::make_unique<SoloWorld>(); }

}  // namespace terrace::comm
