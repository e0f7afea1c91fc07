// Writes the metrics of each step into metrics.jsonl.
#include "terrace/run/hooks/hooks.h"

namespace terrace::run {
namespace {

class MetricsHook : public train::Hook {
 public:
  explicit MetricsHook(SharedMetrics metrics) : metrics_(std::move(metrics)) {}

  void after_step(train::Trainer&, const train::StepReport& report) override {
    if (!report.skipped) metrics_->write(report.metrics);
  }

 private:
  SharedMetrics metrics_;
};

}  // namespace

std::unique_ptr<train::Hook> make_metrics_hook(SharedMetrics metrics) {
  return std::make_unique<MetricsHook>(std::move(metrics));
}

}  // namespace terrace::run
