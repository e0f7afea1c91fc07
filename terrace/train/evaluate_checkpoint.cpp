// Builds a trainer for a checkpoint's model with held-out data alone, and evaluates once.
#include "terrace/train/evaluate_checkpoint.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/log.h"
#include "terrace/base/plural.h"
#include "terrace/base/progress.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/data/data_of_family.h"
#include "terrace/models/families.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/train/agreement.h"
#include "terrace/train/check_start.h"
#include "terrace/train/device.h"
#include "terrace/train/kernel_record.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/run.h"

namespace terrace::train {
namespace {

class EvaluationProgress : public Hook {
 public:
  explicit EvaluationProgress(const Trainer& trainer)
      : total_(batches_of(trainer)), progress_("evaluate", static_cast<uint64_t>(total_)) {}

  void after_step(Trainer&, const StepReport&) override {}
  void during_evaluation(Trainer&) override {
    progress_.update(static_cast<uint64_t>(done_), fmt::format("batch {}/{}", done_ + 1, total_));
    ++done_;
  }

 private:
  static int64_t batches_of(const Trainer& trainer) {
    int64_t batches = 0;
    for (const data::HeldOut& held_out : trainer.data().held_out(std::numeric_limits<uint64_t>::max())) {
      batches += trainer.rounds(held_out);
    }
    return batches;
  }

  int64_t total_, done_ = 0;
  Progress progress_;
};

// The micro-batch that the run was made with, since a product's bits depend on it.
int64_t recorded_micro_batch(const checkpoint::Reader& reader, const config::Config& config) {
  const Json& trainer = reader.trainer();
  if (trainer.contains("kernels")) return trainer.at("kernels").value("micro_batch", config.train.micro_batch);
  return config.train.micro_batch;
}

bool layout_fits(const config::Config& config, int64_t ranks, int64_t here) {
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

// How to evaluate although the files that the run was trained with are not found.
std::string way_to_data(const data::DataOfFamily& data) {
  return fmt::format("; evaluate in the folder in which the run was started{}",
                     !data.evaluates_other_data() ? "" : ", or name prepared datasets with --data");
}

config::Config configuration_of(const EvaluationRequest& request, const checkpoint::Reader& reader, int64_t ranks,
                                int64_t here) {
  config::Config config = reader.config(models::families());
  const data::DataOfFamily& data = data::data_of_family(config);
  if (!request.datasets.empty() && !data.evaluates_other_data()) {
    throw UserError::of("models of the family \"{}\" are evaluated on the data of their run only; leave --data out",
                        config.family->name);
  }
  if (!request.datasets.empty()) {
    data.hold_out(config, request.datasets, reader.attached());
    config.phases.clear();
  } else {
    // The files that the run was started with may be gone.
    data.take_attached(config, reader.attached());
  }
  config.train.device = request.device;
  config.checkpoint.folder.clear();  // nothing is written
  lay_out(config, recorded_micro_batch(reader, config), ranks, here);
  throw_file_problems(data.problems_with_files(config), request.datasets.empty() ? way_to_data(data) : "");
  return config;
}

ops::KernelChoice kernels_of_checkpoint(const checkpoint::Reader& reader) {
  const Json& trainer = reader.trainer();
  return trainer.contains("kernels") ? recorded_choice(trainer.at("kernels")) : ops::KernelChoice{};
}

std::optional<CheckpointEvaluation> evaluate_on_rank(const EvaluationRequest& request, const checkpoint::Reader& reader,
                                                     const config::Config& config, comm::World& world) {
  Trainer trainer(config, {}, kernels_of_checkpoint(reader), &world);
  if (trainer.data().held_out_datasets().empty()) {
    const bool reports = request.world == nullptr || world.rank() == 0;
    throw Refusal(reports ? "the run of this checkpoint held out no data; name datasets with --data" : "");
  }
  abort_on_error(world, [&] { trainer.load_weights(reader); });
  if (world.rank() == 0) trainer.add_hook(std::make_unique<EvaluationProgress>(trainer));
  std::optional<Evaluation> evaluation = abort_on_error(world, [&] { return trainer.evaluate(0); });
  if (!evaluation) return std::nullopt;
  return CheckpointEvaluation{.checkpoint = reader.path(),
                              .step = reader.step(),
                              .config = config,
                              .evaluation = std::move(*evaluation),
                              .figures = trainer.figures()};
}

void log_start(const checkpoint::Reader& reader, int64_t ranks, int64_t threads) {
  log_info("evaluates {} on {} with {}{}", reader.path().string(), counted(ranks, "rank"), counted(threads, "thread"),
           ranks == 1 ? "" : " each");
}

std::optional<CheckpointEvaluation> evaluate_on_threads(const EvaluationRequest& request) {
  const checkpoint::Reader reader(checkpoint::resolve(request.checkpoint));
  const config::Config config = configuration_of(request, reader, request.ranks, request.ranks);
  const int64_t share = std::max<int64_t>(1, choose_threads(0) / request.ranks);
  const int64_t threads = request.threads > 0 ? request.threads : share;
  choose_device(request.device);
  prepare_machine(threads);
  log_start(reader, request.ranks, threads);
  std::optional<CheckpointEvaluation> result;
  comm::run_threads(request.ranks, world_options(config), [&](comm::World& world) {
    std::optional<CheckpointEvaluation> own = evaluate_on_rank(request, reader, config, world);
    if (world.rank() == 0) result = std::move(own);
  });
  return result;
}

std::optional<CheckpointEvaluation> evaluate_on_processes(const EvaluationRequest& request, comm::World& world) {
  std::unique_ptr<checkpoint::Reader> reader;
  config::Config config;
  std::optional<UserError> problem;
  try {
    reader = std::make_unique<checkpoint::Reader>(checkpoint::resolve(request.checkpoint), world.rank(), world.size());
    config = configuration_of(request, *reader, world.size(), world.ranks_per_node());
    choose_device(request.device, world);
  } catch (const UserError& error) {
    problem = error;
  }
  agree(world, problem);
  const int64_t threads = request.threads > 0 ? request.threads : world.cores_per_rank();
  prepare_machine(threads);
  if (world.rank() == 0) log_start(*reader, world.size(), threads);
  return evaluate_on_rank(request, *reader, config, world);
}

}  // namespace

std::optional<CheckpointEvaluation> evaluate_checkpoint(const EvaluationRequest& request) {
  if (request.world == nullptr) return evaluate_on_threads(request);
  return abort_on_error(*request.world, [&] { return evaluate_on_processes(request, *request.world); });
}

}  // namespace terrace::train
