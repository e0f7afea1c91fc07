// Measures the held-out loss every so many steps and at the end of a run.
#include <fmt/format.h>

#include <system_error>

#include "terrace/base/terminal/log.h"
#include "terrace/profile/record.h"
#include "terrace/run/hooks/hooks.h"

namespace terrace::run {
namespace {

class EvaluateHook : public train::Hook {
 public:
  explicit EvaluateHook(SharedMetrics metrics) : metrics_(std::move(metrics)) {}

  // The evaluation of a step is written after the checkpoint of that step. If the metrics lack the evaluation of the
  // step that the run continues from, that evaluation was interrupted or lost with the machine.
  void at_start(train::Trainer& trainer) override {
    const bool lacks =
        metrics_ && trainer.steps_done() > 0 && is_due(trainer) &&
        !observe::read_metrics(trainer.config().checkpoint.folder).evaluations.contains(trainer.steps_done());
    missing_ = trainer.any_rank(lacks, "missing evaluation");
    if (missing_ && !trainer.all_steps_done()) evaluate(trainer);
  }

  void after_step(train::Trainer& trainer, const train::StepReport&) override {
    missing_ = is_due(trainer);
    if (missing_ && !trainer.all_steps_done()) evaluate(trainer);
  }

  // The last step's evaluation waits until its checkpoint is saved, so that nothing is lost if the process is killed.
  void at_end(train::Trainer& trainer) override {
    if (!missing_ || !trainer.all_steps_done()) return;
    evaluate(trainer);
    if (!metrics_) return;
    try {
      metrics_->sync();
    } catch (const std::system_error& error) {
      log_warning("{}", error.what());
    }
  }

  bool finished() const override { return !missing_; }

 private:
  static bool is_due(const train::Trainer& trainer) {
    const int64_t every = trainer.config().train.evaluate_every;
    return every > 0 && (trainer.steps_done() % every == 0 || trainer.all_steps_done());
  }

  void evaluate(train::Trainer& trainer) {
    const profile::PhaseRecord record("evaluate");
    const std::optional<train::Evaluation> evaluation = trainer.evaluate(trainer.config().train.evaluate_batches);
    missing_ = !evaluation;
    if (missing_ || !metrics_) return;
    observe::EvaluationMetrics metrics{
        .step = trainer.steps_done(), .validation_loss = evaluation->all.loss, .figures = evaluation->all.figures};
    std::string datasets;
    // The loss of a single dataset is the validation loss itself.
    if (trainer.data().held_out_datasets().size() > 1) {
      for (const train::HeldOutFigures& one : evaluation->by_dataset) {
        metrics.by_dataset.push_back({.dataset = one.dataset, .loss = one.loss, .figures = one.figures});
        datasets += fmt::format("{}{} {:.4f}", datasets.empty() ? "" : ", ", one.dataset, one.loss);
      }
      datasets = fmt::format(" ({})", datasets);
    }
    metrics_->write(metrics);
    log_info("step {}: validation loss {:.4f}{}{}", metrics.step, metrics.validation_loss, datasets,
             trainer.figures_text(metrics.figures));
  }

  SharedMetrics metrics_;
  bool missing_ = false;  // whether the evaluation of the step that the run has reached is still to be made
};

}  // namespace

std::unique_ptr<train::Hook> make_evaluate_hook(SharedMetrics metrics) {
  return std::make_unique<EvaluateHook>(std::move(metrics));
}

}  // namespace terrace::run
