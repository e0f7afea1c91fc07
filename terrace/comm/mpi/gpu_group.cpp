// Broadcasts the id of the NCCL communicators over MPI. The engine's thread monitors calls on the GPU, since no rank
// waits for them itself.
#include "terrace/comm/mpi/gpu_group.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace terrace::comm {
namespace {

class GpuOperation final : public MpiOperation {
 public:
  GpuOperation(std::shared_ptr<MpiChannel> channel, std::shared_ptr<NcclChannel> gpus, const Call& call)
      : MpiOperation(std::move(channel), call), gpus_(std::move(gpus)) {}

  // Called without the engine's lock, as all others are called with it.
  void start(MpiEngine& engine) {
    std::shared_ptr<NcclCall> started = gpus_->start(call());
    const MpiEngine::Lock lock = engine.lock();
    started_ = std::move(started);
  }
  bool advance() override { return started_ && started_->done(); }
  bool on_gpu() const override { return true; }
  void let_gpu_wait() override { started_->let_default_stream_wait(); }
  std::chrono::steady_clock::time_point began() const override { return began_; }
  void abandon() override { gpus_->abort(); }

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::shared_ptr<NcclChannel> gpus_;
  std::shared_ptr<NcclCall> started_;  // null until the call is enqueued
};

}  // namespace

std::shared_ptr<NcclChannel> connect_gpus(MpiEngine& engine, const std::shared_ptr<MpiChannel>& channel,
                                          const std::vector<mesh::Direction>& directions, int gpu,
                                          double timeout_seconds) {
  NcclIds ids((1 + directions.size()) * nccl_id_bytes);
  if (channel->member() == 0) ids = make_nccl_ids(1 + directions.size());
  const Call call{.kind = Kind::broadcast,
                  .count = std::ssize(ids),
                  .from = ids.data(),
                  .to = ids.data(),
                  .peer = 0,
                  .label = {.what = "connect GPUs"}};
  MpiOperationPointer id_broadcast;
  {
    const MpiEngine::Lock lock = engine.lock();
    id_broadcast = start_unchecked(channel, call);
    engine.add(id_broadcast);
  }
  engine.wait(*id_broadcast);
  const auto began = MpiEngine::Clock::now();
  const auto check = [&] {
    engine.throw_if_failed();
    const std::chrono::duration<double> waited = MpiEngine::Clock::now() - began;
    if (waited.count() < timeout_seconds) return;
    throw CommError(
        fmt::format("waited {:g} s for the GPUs of group {} to connect", timeout_seconds, channel->group().name));
  };
  return std::make_shared<NcclChannel>(ids, channel->group(), channel->member(), directions, gpu,
                                       channel->choices().rank_order, check);
}

MpiOperationPointer start_on_gpu(MpiEngine& engine, const std::shared_ptr<MpiChannel>& channel,
                                 const std::shared_ptr<NcclChannel>& gpus, const Call& call) {
  const auto operation = std::make_shared<GpuOperation>(channel, gpus, call);
  {
    const MpiEngine::Lock lock = engine.lock();
    engine.add(operation);
  }
  try {
    operation->start(engine);
  } catch (const CommError&) {
    engine.throw_if_failed();  // the reason why the start was ended
    throw;
  }
  return operation;
}

}  // namespace terrace::comm
