// Updates the peak in run.json when a step has raised it.
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json.h"
#include "terrace/run/hooks/hooks.h"

namespace terrace::run {
namespace {

class PeakHook : public train::Hook {
 public:
  explicit PeakHook(const train::Trainer& trainer)
      : path_(std::filesystem::path(trainer.config().checkpoint.folder) / "run.json"),
        written_(trainer.peak().flops_per_second) {}

  void after_step(train::Trainer& trainer, const train::StepReport&) override {
    if (trainer.peak().flops_per_second == written_) return;
    written_ = trainer.peak().flops_per_second;
    try {
      write(trainer.peak());
    } catch (const std::exception& error) {
      // A full disk must not end a run because of one figure.
      log_warning("the raised peak could not be written into {}: {}", path_.string(), error.what());
    }
  }

 private:
  void write(const train::Peak& peak) const {
    if (!std::filesystem::exists(path_)) return;
    Json facts = parse_json(read_text(path_));
    facts["peak_flops_per_second"] = peak.flops_per_second;
    facts["peak_name"] = peak.name;
    write_text_atomically(path_, facts.dump(2) + "\n");
  }

  std::filesystem::path path_;
  double written_;
};

}  // namespace

std::unique_ptr<train::Hook> make_peak_hook(const train::Trainer& trainer) {
  return std::make_unique<PeakHook>(trainer);
}

}  // namespace terrace::run
