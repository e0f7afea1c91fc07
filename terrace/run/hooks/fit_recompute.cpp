// Recomputes as few layers as the memory allows: first by what plan counts, then by what the first steps leave.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/terminal/log.h"
#include "terrace/base/text/units.h"
#include "terrace/plan/memory/fewest_recomputed.h"
#include "terrace/run/hooks/hooks.h"
#include "terrace/train/device.h"

namespace terrace::run {
namespace {

using Bytes = std::vector<double>;  // by stage

constexpr double kept_free = 0.1;  // share of the memory before the model was built
constexpr int64_t steps_between = 2, corrections = 3;

class FitRecomputeHook : public train::Hook {
 public:
  FitRecomputeHook(double left_before_model, MemoryLeft left) : left_(std::move(left)), at_first_(left_before_model) {}

  void at_start(train::Trainer& trainer) override {
    const Bytes left = least_by_stage(trainer, at_first_);
    if (std::ranges::find(left, 0.0) != left.end()) {
      if (trainer.rank() == 0) log_warning("the memory that is left is unknown: all layers are recomputed");
      corrections_left_ = 0;
      return;
    }
    Bytes room;
    for (const double bytes : left) room.push_back((1 - kept_free) * bytes);
    take(trainer, room, "by plan");
  }

  void after_step(train::Trainer& trainer, const train::StepReport& report) override {
    if (corrections_left_ == 0 || report.skipped || ++steps_ % steps_between != 0) return;
    --corrections_left_;
    // A stage may take what its rank with least memory has left, beside what it needs now.
    Bytes room = needed(trainer, trainer.recompute_layers());
    const Bytes left = least_by_stage(trainer, left_() - kept_free * at_first_);
    bool is_short = false;
    for (size_t stage = 0; stage < room.size(); ++stage) {
      room[stage] += left[stage];
      is_short = is_short || left[stage] < 0;
    }
    take(trainer, room, fmt::format("after step {}", report.metrics.step));
    // A process keeps the memory that it has taken, so later steps would not show what fewer kept layers leave.
    if (is_short) corrections_left_ = 0;
  }

 private:
  static int64_t ranks_here(const train::Trainer& trainer) { return trainer.mesh().topology().ranks_per_node; }
  static config::Config on_device(const train::Trainer& trainer) {
    return train::on_device(trainer.config(), trainer.device());
  }

  static Bytes needed(const train::Trainer& trainer, const config::RecomputeLayers& layers) {
    return plan::needed_by_stage(on_device(trainer), layers, trainer.mesh().size(), ranks_here(trainer));
  }

  // The least of the ranks of each stage.
  static Bytes least_by_stage(train::Trainer& trainer, double own) {
    const mesh::Mesh& mesh = trainer.mesh();
    Bytes of_ranks(static_cast<size_t>(mesh.size()));
    trainer.cut()
        .groups.control->all_gather(&own, of_ranks.data(), 1, comm::Type::fp64, {.what = "memory left"})
        .wait();
    Bytes least(static_cast<size_t>(mesh.size("pipeline")), std::numeric_limits<double>::infinity());
    for (int64_t rank = 0; rank < mesh.size(); ++rank) {
      double& stage = least[static_cast<size_t>(mesh.coordinate(rank, "pipeline"))];
      stage = std::min(stage, of_ranks[static_cast<size_t>(rank)]);
    }
    return least;
  }

  static void take(train::Trainer& trainer, const Bytes& room, const std::string& when) {
    const config::RecomputeLayers layers =
        plan::fewest_recomputed(on_device(trainer), room, trainer.mesh().size(), ranks_here(trainer));
    if (layers == trainer.recompute_layers()) return;
    trainer.set_recompute_layers(layers);
    if (trainer.rank() != 0) return;
    const Bytes bytes = needed(trainer, layers);
    log_info("{}: {} layers of {} are recomputed; a rank needs up to {} of {}", when, fmt::join(layers.numbers, ", "),
             layers.numbers.size() == 1 ? "the model" : "the stages", format_bytes(std::ranges::max(bytes)),
             format_bytes(std::ranges::max(room)));
  }

  MemoryLeft left_;
  double at_first_;
  int64_t steps_ = 0, corrections_left_ = corrections;
};

}  // namespace

std::unique_ptr<train::Hook> make_fit_recompute_hook(double left_before_model, MemoryLeft left) {
  return std::make_unique<FitRecomputeHook>(left_before_model, std::move(left));
}

}  // namespace terrace::run
