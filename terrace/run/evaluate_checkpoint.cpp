// Builds a trainer for a checkpoint's model with held-out data alone, and evaluates once.
#include "terrace/run/evaluate_checkpoint.h"

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <numbers>
#include <numeric>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/config/family.h"
#include "terrace/run/checkpoint_ranks.h"
#include "terrace/run/single_checks.h"
#include "terrace/train/agreement.h"

namespace terrace::run {
namespace {

class EvaluationProgress : public train::Hook {
 public:
  explicit EvaluationProgress(const train::Trainer& trainer)
      : total_(batches_of(trainer)), progress_("evaluate", static_cast<uint64_t>(total_)) {}

  void after_step(train::Trainer&, const train::StepReport&) override {}
  void during_evaluation(train::Trainer&) override {
    progress_.update(static_cast<uint64_t>(done_), fmt::format("batch {}/{}", done_ + 1, total_));
    ++done_;
  }

 private:
  static int64_t batches_of(const train::Trainer& trainer) {
    int64_t batches = 0;
    for (const data::HeldOut& held_out : trainer.data().held_out(std::numeric_limits<uint64_t>::max())) {
      batches += trainer.rounds(held_out);
    }
    return batches;
  }

  int64_t total_, done_ = 0;
  Progress progress_;
};

// Advice on how to evaluate although the files that the run was trained with are not found.
std::string way_to_data(const data::DataOfFamily& data) {
  return fmt::format("; evaluate in the folder in which the run was started{}",
                     !data.evaluates_other_data() ? "" : ", or name prepared datasets with --data");
}

// Makes the held-out data of the request those of the configuration.
void choose_data(const EvaluationRequest& request, const checkpoint::Reader& reader, config::Config& config) {
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
  data.choose_held_out(config, request.held_out);
  throw_file_problems(data.problems_with_files(config), request.datasets.empty() ? way_to_data(data) : "");
}

std::vector<uint64_t> bytes_of_text(const data::Source& data) {
  std::vector<uint64_t> bytes;
  for (const data::HeldOut& held_out : data.held_out(std::numeric_limits<uint64_t>::max())) {
    const std::optional<uint64_t> own = data.held_out_bytes(held_out);
    if (!own || *own == 0) return {};
    bytes.push_back(*own);
  }
  return bytes;
}

std::optional<CheckpointEvaluation> evaluate_on_rank(train::Trainer& trainer, const checkpoint::Reader& reader,
                                                     comm::World& world, bool reports) {
  if (trainer.data().held_out_datasets().empty()) {
    throw train::Refusal(reports ? "the run of this checkpoint held out no data; name datasets with --data" : "");
  }
  train::abort_on_error(world, [&] { trainer.load_weights(reader); });
  if (world.rank() == 0) trainer.add_hook(std::make_unique<EvaluationProgress>(trainer));
  std::optional<train::Evaluation> evaluation = train::abort_on_error(world, [&] { return trainer.evaluate(0); });
  if (!evaluation) return std::nullopt;
  return CheckpointEvaluation{.checkpoint = reader.path(),
                              .step = reader.step(),
                              .config = trainer.config(),
                              .evaluation = std::move(*evaluation),
                              .figures = trainer.figures(),
                              .bytes = world.rank() == 0 ? bytes_of_text(trainer.data()) : std::vector<uint64_t>{}};
}

}  // namespace

uint64_t CheckpointEvaluation::all_bytes() const { return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}); }

double CheckpointEvaluation::bits_per_byte(const train::HeldOutFigures& figures, uint64_t bytes) {
  return figures.loss * figures.count / (std::numbers::ln2 * static_cast<double>(bytes));
}

std::optional<CheckpointEvaluation> evaluate_checkpoint(const EvaluationRequest& request) {
  std::optional<CheckpointEvaluation> result;
  use_checkpoint({.checkpoint = request.checkpoint,
                  .ranks = request.ranks,
                  .world = request.world,
                  .threads = request.threads,
                  .device = request.device},
                 {.verb = "evaluates",
                  .configure = [&](config::Config& config,
                                   const checkpoint::Reader& reader) { choose_data(request, reader, config); },
                  .run =
                      [&](train::Trainer& trainer, const checkpoint::Reader& reader, comm::World& world) {
                        const bool reports = request.world == nullptr || world.rank() == 0;
                        std::optional<CheckpointEvaluation> own = evaluate_on_rank(trainer, reader, world, reports);
                        if (request.world != nullptr || world.rank() == 0) result = std::move(own);
                      }});
  return result;
}

}  // namespace terrace::run
