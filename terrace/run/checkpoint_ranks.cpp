// Chooses layout, threads and device, and builds a trainer on each rank.
#include "terrace/run/checkpoint_ranks.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/plural.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/config/family.h"
#include "terrace/models/families.h"
#include "terrace/run/run_training.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/train/agreement.h"
#include "terrace/train/device.h"
#include "terrace/train/kernel_record.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/world_options.h"

namespace terrace::run {
namespace {

// The micro-batch that the run was made with, since a product's bits depend on it.
int64_t recorded_micro_batch(const checkpoint::Reader& reader, const config::Config& config) {
  const Json& trainer = reader.trainer();
  if (trainer.contains("kernels")) return trainer.at("kernels").value("micro_batch", config.train.micro_batch);
  return config.train.micro_batch;
}

// Whether the layout fits the ranks. The samples of an evaluation need not be one micro-batch, as those of a step may
// have to be.
bool layout_fits(config::Config config, int64_t ranks, int64_t here) {
  if (!config.family->settings.equal_shares) config.train.micro_batch = 0;
  try {
    schedule::check_ranks(config, ranks, here);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

// The layout of the run if it fits the ranks, else one whole model for each rank. A step is as large as these need.
void lay_out(config::Config& config, int64_t micro_batch, int64_t ranks, int64_t here) {
  config.train.ramp_start = config.train.ramp_increment = config.train.ramp_samples = 0;
  const auto set_global_batch = [&](int64_t samples) {
    config.train.global_batch = samples;
    for (config::Phase& phase : config.phases) phase.global_batch = samples;
  };
  if (config.family->settings.equal_shares) {
    config.train.micro_batch = micro_batch > 0 ? micro_batch : 1;
    set_global_batch(config.train.micro_batch * ranks * config.layout.pipeline);
  }
  if (layout_fits(config, ranks, here)) return;
  const config::LayoutConfig& own = config.layout;
  config.layout = {.timeout = own.timeout, .check_calls = own.check_calls, .share_gpus = own.share_gpus};
  if (config.family->settings.equal_shares) set_global_batch(config.train.micro_batch * ranks);
}

config::Config configuration_of(const CheckpointRequest& request, const CheckpointWork& work,
                                const checkpoint::Reader& reader, int64_t ranks, int64_t here) {
  config::Config config = reader.config(models::families());
  config.train.device = request.device;
  config.checkpoint.folder.clear();  // nothing is written
  lay_out(config, recorded_micro_batch(reader, config), ranks, here);
  work.configure(config, reader);
  return config;
}

ops::KernelChoice kernels_of_checkpoint(const checkpoint::Reader& reader) {
  const Json& trainer = reader.trainer();
  return trainer.contains("kernels") ? train::recorded_choice(trainer.at("kernels")) : ops::KernelChoice{};
}

void log_start(const CheckpointWork& work, const checkpoint::Reader& reader, int64_t ranks, int64_t threads) {
  log_info("{} {} on {} with {}{}", work.verb, reader.path().string(), counted(ranks, "rank"),
           counted(threads, "thread"), ranks == 1 ? "" : " each");
}

void use_on_rank(const CheckpointWork& work, const checkpoint::Reader& reader, const config::Config& config,
                 comm::World& world) {
  train::Trainer trainer(config, {}, kernels_of_checkpoint(reader), &world);
  work.run(trainer, reader, world);
}

void use_on_threads(const CheckpointRequest& request, const CheckpointWork& work) {
  const checkpoint::Reader reader(checkpoint::resolve(request.checkpoint));
  const config::Config config = configuration_of(request, work, reader, request.ranks, request.ranks);
  const int64_t share = std::max<int64_t>(1, train::choose_threads(0) / request.ranks);
  const int64_t threads = request.threads > 0 ? request.threads : share;
  train::choose_device_of_threads(request.device, request.ranks, "--device cpu");
  train::prepare_machine(threads);
  log_start(work, reader, request.ranks, threads);
  comm::run_threads(request.ranks, train::world_options(config),
                    [&](comm::World& world) { use_on_rank(work, reader, config, world); });
}

void use_on_processes(const CheckpointRequest& request, const CheckpointWork& work, comm::World& world) {
  std::unique_ptr<checkpoint::Reader> reader;
  config::Config config;
  std::optional<UserError> problem;
  try {
    reader = std::make_unique<checkpoint::Reader>(checkpoint::resolve(request.checkpoint), world.rank(), world.size());
    config = configuration_of(request, work, *reader, world.size(), world.ranks_per_node());
    train::choose_device(request.device, world);
  } catch (const UserError& error) {
    problem = error;
  }
  train::agree(world, problem);
  const int64_t threads = request.threads > 0 ? request.threads : world.cores_per_rank();
  train::prepare_machine(threads);
  if (world.rank() == 0) log_start(work, *reader, world.size(), threads);
  use_on_rank(work, *reader, config, world);
}

}  // namespace

void use_checkpoint(const CheckpointRequest& request, const CheckpointWork& work) {
  if (request.world == nullptr) return use_on_threads(request, work);
  train::abort_on_error(*request.world, [&] { use_on_processes(request, work, *request.world); });
}

}  // namespace terrace::run
