// Writes the metrics of each step into metrics.jsonl.
#include "terrace/train/hooks/hooks.h"

namespace terrace::train {
namespace {

class MetricsHook : public Hook {
 public:
  explicit MetricsHook(SharedMetrics metrics) : metrics_(std::move(metrics)) {}

  void after_step(Trainer&, const StepReport& report) override {
    if (!report.skipped) metrics_->write(report.metrics);
  }

 private:
  SharedMetrics metrics_;
};

}  // namespace

std::unique_ptr<Hook> make_metrics_hook(SharedMetrics metrics) {
  return std::make_unique<MetricsHook>(std::move(metrics));
}

}  // namespace terrace::train
