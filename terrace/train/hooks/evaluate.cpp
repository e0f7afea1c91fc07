// Measures the held-out loss beside training.
#include "terrace/base/log.h"
#include "terrace/ops/record.h"
#include "terrace/train/hooks/hooks.h"

namespace terrace::train {
namespace {

class EvaluateHook : public Hook {
 public:
  explicit EvaluateHook(SharedMetrics metrics) : metrics_(std::move(metrics)) {}

  void after_step(Trainer& trainer, const StepReport& report) override {
    const int64_t every = trainer.config().train.evaluate_every;
    if (every > 0 && (report.metrics.step % every == 0 || trainer.finished())) evaluate(trainer);
  }

 private:
  void evaluate(Trainer& trainer) {
    const ops::PhaseRecord record("evaluate");
    const double loss = trainer.evaluate(trainer.config().train.evaluate_batches);
    if (!metrics_) return;
    metrics_->write(observe::EvaluationMetrics{.step = trainer.steps_done(), .validation_loss = loss});
    log_info("step {}: validation loss {:.4f}", trainer.steps_done(), loss);
  }

  SharedMetrics metrics_;
};

}  // namespace

std::unique_ptr<Hook> make_evaluate_hook(SharedMetrics metrics) {
  return std::make_unique<EvaluateHook>(std::move(metrics));
}

}  // namespace terrace::train
