// Measures the held-out loss beside training.
#include "terrace/base/log.h"
#include "terrace/train/hooks/hooks.h"

namespace terrace::train {
namespace {

class EvaluateHook : public Hook {
 public:
  explicit EvaluateHook(SharedMetrics metrics) : metrics_(std::move(metrics)) {}

  void after_step(Trainer& trainer, const StepReport& report) override {
    const int64_t every = trainer.config().train.evaluate_every;
    if (every > 0 && report.metrics.step % every == 0) evaluate(trainer);
  }

  void at_end(Trainer& trainer) override {
    if (trainer.config().train.evaluate_every > 0 && evaluated_step_ != trainer.steps_done()) evaluate(trainer);
  }

 private:
  void evaluate(Trainer& trainer) {
    const double loss = trainer.evaluate(trainer.config().train.evaluate_batches);
    evaluated_step_ = trainer.steps_done();
    metrics_->write(observe::EvaluationMetrics{.step = evaluated_step_, .validation_loss = loss});
    log_info("step {}: validation loss {:.4f}", evaluated_step_, loss);
  }

  SharedMetrics metrics_;
  int64_t evaluated_step_ = -1;
};

}  // namespace

std::unique_ptr<Hook> make_evaluate_hook(SharedMetrics metrics) {
  return std::make_unique<EvaluateHook>(std::move(metrics));
}

}  // namespace terrace::train
