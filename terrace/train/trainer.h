// A training run as one of its ranks sees it: model, data, optimizer and the counters a run continues from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/data/batch_ramp.h"
#include "terrace/data/source.h"
#include "terrace/mesh/mesh.h"
#include "terrace/models/model.h"
#include "terrace/observe/metrics.h"
#include "terrace/ops/kernel_choice.h"
#include "terrace/optim/adamw.h"
#include "terrace/optim/loss_scale.h"
#include "terrace/parallel/cut_model.h"
#include "terrace/train/training_step.h"

namespace terrace::train {

// What one step did.
struct StepReport {
  observe::StepMetrics metrics;
  double loss_scale = 1;     // that the step ran with
  bool applied = false;      // false: the update was left out because the loss or a gradient was not finite
  bool passed_over = false;  // the step is in skip_steps: nothing was computed
};

// The held-out loss: what is minimised, over all held-out samples.
struct Evaluation {
  double loss = 0;
  std::vector<double> figures = {};  // by Trainer::metric_names()
  // The same of each corpus that samples were taken from, in the configuration's order.
  std::vector<std::pair<std::string, double>> by_corpus = {};
};

// The rate that MFU is a share of.
struct Peak {
  double flops_per_second = 0;  // 0: not known
  std::string name;
  ops::Products products = ops::Products::own;  // whose are faster here

  bool known() const { return flops_per_second > 0; }
};

class Trainer;

// With on_nan = "skip" a run whose updates are all left out has broken down: after so many in a row it stops.
inline constexpr int64_t most_skipped = 10;

// Something that happens beside training: log, save, evaluate.
class Hook {
 public:
  virtual ~Hook() = default;
  // Before the first step of this start, or at once at the end of a run that has no steps left.
  virtual void at_start(Trainer&) {}
  virtual void after_step(Trainer& trainer, const StepReport& report) = 0;
  // Before each batch of an evaluation, which ends there if the hook stops the run.
  virtual void during_evaluation(Trainer&) {}
  virtual void at_end(Trainer&) {}
  // Whether nothing is left to do for the step that the run has reached. Every rank must give the same answer.
  virtual bool finished() const { return true; }
  // Waits for what it does in the background, before the run's folder is looked at.
  virtual void settle() {}
};

// The device and number of threads that a configuration asks for; "auto" takes a GPU where the build and machine have
// one. Of several GPUs each of the ranks on this machine has its own; throws UserError where there are too few.
at::Device choose_device(const std::string& name, int64_t local_rank = 0, int64_t ranks_here = 1);
int64_t choose_threads(int64_t configured);

class Trainer {
 public:
  // Opens the data, builds the model and gives it its initial values. Threads must be set before. All ranks of the
  // world do the same from here on; a world of one rank where none is given.
  Trainer(const config::Config& config, Peak peak, const ops::KernelChoice& kernels = {}, comm::World* world = nullptr);

  // Continues from a checkpoint: weights, optimizer states, counters. Throws UserError where a key differs that must
  // not; says in the log where the run will not continue to the last bit. Corpora and tokenizer must be those of the
  // run.
  void resume(const checkpoint::Reader& checkpoint);
  // Takes only the weights of a checkpoint; everything else starts anew.
  void load_weights(const checkpoint::Reader& checkpoint);

  void add_hook(std::unique_ptr<Hook> hook) { hooks_.push_back(std::move(hook)); }

  // Steps until config.train.steps, or until a stop is requested, hooks after each, in the order they were added.
  void run();
  // Requests a stop after the present step or batch of an evaluation, for the reason given; as a signal does, but of
  // this run alone.
  void stop(std::string reason) { stop_reason_ = std::move(reason); }
  const std::string& stop_reason() const { return stop_reason_; }
  bool all_steps_done() const { return steps_done_ >= config_.train.steps; }
  // Whether the run has made all its steps and what the hooks do after the last one.
  bool finished() const;
  // One step. Throws std::runtime_error naming step, first bad parameter and last good checkpoint where the loss or a
  // gradient is not finite and on_nan is "stop", or where on_nan = "skip" left out most_skipped updates in a row.
  StepReport step();

  // Whether it is so on any rank; asked by all at the same place.
  bool any_rank(bool is_so, const char* what) { return sum_of(static_cast<int64_t>(is_so), what) > 0; }
  // The first rank's number, on every rank; asked by all at the same place.
  int64_t of_first_rank(int64_t value, const char* what);

  // The loss over `batches` global batches of held-out samples, over all of them where 0: always the same ones, each
  // once (data::Source::held_out). Nothing where a stop was requested meanwhile, on any rank.
  std::optional<Evaluation> evaluate(int64_t batches);

  // What decides the last bits beside the configuration, as it is now.
  Json kernels() const;

  // Everything a run continues from; tensors are the live ones.
  checkpoint::State state();

  const config::Config& config() const { return config_; }
  const Peak& peak() const { return peak_; }
  const data::Source& data() const { return *data_; }
  models::Model& model() { return *model_; }
  optim::AdamW& optimizer() { return optimizer_; }
  const mesh::Mesh& mesh() const { return mesh_; }
  int64_t rank() const { return world_->rank(); }
  comm::Comm& saving_group() { return *cut_.groups.saving; }
  int64_t steps_done() const { return steps_done_; }
  int64_t items_done() const { return items_done_; }
  observe::MetricNames metric_names() const;
  at::Device device() const { return device_; }

 private:
  // This rank's micro-batches of a step of so many samples.
  std::vector<models::Batch> micro_batches(int64_t step, int64_t samples) const;
  // By loss of the model, over all ranks: over how much it is summed, at least 1. Aborts unless all ranks have the same
  // number of micro-batches.
  std::vector<double> summed_counts(const std::vector<models::Batch>& batches);
  // By loss of the model, over held-out samples and all ranks.
  struct LossSums {
    std::vector<double> losses, counts;
  };
  std::optional<LossSums> held_out_loss(const data::HeldOut& held_out);
  // Asked by all ranks at the same place.
  bool must_stop();
  // Over all ranks, in rank order.
  int64_t sum_of(int64_t value, const char* what);
  // Fills the report. Returns what the gradients are multiplied by, nothing where the update is left out.
  std::optional<double> judge_gradients(double loss, const optim::GradientNorm& gradients, StepReport& report);
  // MFU of a step. One that is faster than the peak shows that the peak was measured too low, and becomes the peak.
  void add_mfu(double step_flops, observe::StepMetrics& metrics);
  [[noreturn]] void stop_not_finite(const StepReport& report, const std::string& first_bad);
  [[noreturn]] void stop_skipping();
  // What this rank alone answers for; for reading also what other tensor ranks have too.
  enum class Purpose { save, read };
  std::vector<checkpoint::Group> groups(Purpose purpose);

  std::unique_ptr<comm::World> solo_;  // where no world was given
  comm::World* world_;
  config::Config config_;
  mesh::Mesh mesh_;
  int64_t micro_batch_;  // samples
  Peak peak_;            // on the first rank, which alone writes it; the others raise theirs by clocks of their own
  bool peak_raised_ = false;
  ops::KernelChoice kernels_;
  at::Device device_;
  std::unique_ptr<data::Source> data_;
  std::unique_ptr<models::Model> model_;
  std::vector<models::LossTerm> losses_;
  schedule::UnitTable unit_table_;  // of one sample
  parallel::CutModel cut_;
  data::TensorNames tensor_names_;  // that the units of this rank read
  Json data_record_;                // data_->identity(), computed by one rank for all
  optim::AdamW optimizer_;
  optim::LossScale loss_scale_;
  data::BatchRamp ramp_;
  TrainingStep training_step_;
  std::vector<std::unique_ptr<Hook>> hooks_;
  std::string stop_reason_;
  int64_t steps_done_ = 0;
  int64_t items_done_ = 0;
  int64_t skipped_in_a_row_ = 0;
};

}  // namespace terrace::train
