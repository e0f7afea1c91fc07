// Trains a model on one rank of a run: holds the model, data, optimizer and the counters that a run continues from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/data/batches_ahead.h"
#include "terrace/data/order/batch_ramp.h"
#include "terrace/data/source.h"
#include "terrace/mesh/mesh.h"
#include "terrace/models/model.h"
#include "terrace/observe/metrics.h"
#include "terrace/ops/kernel_choice.h"
#include "terrace/optim/loss_scale.h"
#include "terrace/optim/noise_scale.h"
#include "terrace/optim/spike_detector.h"
#include "terrace/train/computation_check.h"
#include "terrace/train/left_out_steps.h"
#include "terrace/train/memory_fault.h"
#include "terrace/train/parameter_norms.h"
#include "terrace/train/rank_model.h"
#include "terrace/train/state_check.h"

namespace terrace::train {

// The results of one step.
struct StepReport {
  observe::StepMetrics metrics;
  double flops = 0;       // of the model, on all ranks
  double loss_scale = 1;  // the scale that the step ran with
  bool applied = false;   // false: the update was left out because the loss or a gradient was not finite
  bool skipped = false;   // the step is in skip_steps or left out after a spike: nothing was computed
};

// The results of an evaluation on held-out samples.
struct HeldOutFigures {
  std::string dataset = {};          // the name in the configuration; "" for all of them together
  double loss = 0;                   // the loss that training minimises
  std::vector<double> figures = {};  // in the order of observe::MetricNames::evaluation_figures
  double count = 0;                  // what the model's first loss was summed over, such as tokens
};

struct Evaluation {
  HeldOutFigures all;
  std::vector<HeldOutFigures> by_dataset = {};  // datasets that samples were taken from, in the configuration's order
};

// The rate that MFU is a share of.
struct Peak {
  double flops_per_second = 0;  // 0: not known
  std::string name;

  bool known() const { return flops_per_second > 0; }
};

class DataStage;
class Trainer;

// With on_nan = "skip" or on_spike = "skip" a run stops after this many left-out updates in a row, since such a run has
// broken down.
inline constexpr int64_t most_skipped = 10;

// Something that happens beside training, such as logging, saving or evaluating.
class Hook {
 public:
  virtual ~Hook() = default;
  // Called before the first step of this start, also if the run has no steps left.
  virtual void at_start(Trainer&) {}
  // The learning rate of a step: that of [optimizer] or of the hook before is `scheduled`. Every rank must give the
  // same answer, and a resumed run the answer that it would have given without a stop.
  virtual double learning_rate(const Trainer&, int64_t /*step*/, double scheduled) { return scheduled; }
  virtual void after_step(Trainer& trainer, const StepReport& report) = 0;
  // Called before each batch of an evaluation; the evaluation ends there if the hook stops the run.
  virtual void during_evaluation(Trainer&) {}
  virtual void at_end(Trainer&) {}
  // Whether nothing is left to do for the step that the run has reached. Every rank must give the same answer.
  virtual bool finished() const { return true; }
  // Waits until work in the background is done; called before the trainer reads the run's folder.
  virtual void finish_background_work() {}
};

// The number of threads that a configuration asks for.
int64_t choose_threads(int64_t configured);

class Trainer {
 public:
  // Opens the data, builds the model and sets its initial values. The number of threads must be set before. All ranks
  // of the world make the same calls from here on; without `world` the trainer makes a world of one rank. `units` is
  // the unit table of the configuration, which ranks that are threads of one process share; null: it is made here.
  Trainer(const config::Config& config, Peak peak, const ops::KernelChoice& kernels = {}, comm::World* world = nullptr,
          std::shared_ptr<const schedule::UnitTable> units = nullptr);

  // Continues from a checkpoint: weights, optimizer states, counters. Throws a Refusal, a UserError that all ranks know
  // of, if a key differs that must not, if datasets or tokenizer are not those of the run, or if a file is damaged;
  // logs a warning if the run will not continue bit for bit.
  void resume(const checkpoint::Reader& checkpoint);
  // Takes only the weights and buffers of a checkpoint of this model; optimizer states and counters keep their initial
  // values.
  void load_weights(const checkpoint::Reader& checkpoint);
  // Takes weights and buffers from a checkpoint of another model, as the family maps it (models/weight_map.h). The
  // first rank logs which tensors are not taken as they are.
  void take_initial_weights(const checkpoint::Reader& checkpoint);

  void add_hook(std::unique_ptr<Hook> hook) { hooks_.push_back(std::move(hook)); }

  // Does what comes before the first step, once: stages the data and calls the hooks' at_start().
  void start();
  // Starts, and trains until config.train.steps steps are done or a stop is requested. Hooks run in the order they were
  // added.
  void run();
  // Requests a stop of this run after the present step or batch of an evaluation, for the reason given. (A signal stops
  // all runs of the process.)
  void stop(std::string reason) { stop_reason_ = std::move(reason); }
  const std::string& stop_reason() const { return stop_reason_; }
  bool all_steps_done() const { return steps_done_ >= config_.train.steps; }
  // Whether the run has made all its steps and the hooks have done their work after the last step.
  bool finished() const;
  // Makes one step. If the loss or a gradient is not finite and on_nan is "stop", throws std::runtime_error that names
  // the step, the first bad parameter and the last good checkpoint. Also throws it if on_nan = "skip" left out
  // most_skipped updates in a row. With on_spike = "back" throws Rewind in a step that is a spike. Where a check finds
  // corruption, which all ranks then know, throws CorruptionError or, with on_corruption = "reload", Rewind (rewind.h).
  StepReport step();
  // Steps of which nothing is computed, besides those of train.skip_steps. All ranks give the same ones.
  void leave_out_steps(const std::set<int64_t>& steps);
  bool leaves_out(int64_t step) const;
  // For tests: flips these bits in the steps to come.
  void disturb(const std::vector<MemoryFault>& faults);

  // Whether any rank says yes. Called by all ranks at the same place.
  bool any_rank(bool yes, const char* what) { return sum_of(static_cast<int64_t>(yes), what) > 0; }
  // The first rank's value, on every rank. Called by all ranks at the same place.
  int64_t of_first_rank(int64_t value, const char* what);

  // The loss over `batches` global batches of held-out samples, or over all held-out samples if `batches` is 0. Every
  // call takes the same samples, each once (data::Source::held_out). Nothing if any rank requested a stop meanwhile.
  std::optional<Evaluation> evaluate(int64_t batches);
  // The tensors of a batch that the units of this rank read.
  const data::TensorNames& tensor_names() const { return tensor_names_; }
  // The outputs of the model for a micro-batch, on the ranks that hold the model's last unit; elsewhere nothing. Each
  // rank that divides the model has the tensors of the micro-batch that it reads. Called by all ranks together.
  models::Outputs outputs(data::MicroBatch micro_batch) {
    return own_.step.outputs(models::to_device(models::on_host(std::move(micro_batch)), device_));
  }

  // The text of one rank, on every rank. Called by all ranks at the same place.
  std::string of_rank(int64_t rank, std::string text, const char* what);

  const std::vector<models::LossTerm>& losses() const { return losses_; }  // of the model
  // See Executor::losses_of_micro_batches.
  std::vector<observe::TermSums> last_losses() const { return own_.step.losses_of_micro_batches(); }

  // See Executor::tell.
  void tell_of_steps(StepObserver* observer) { own_.step.tell(observer); }

  // The clock by which the rank's steps are measured, which outlives the run; null: that of this machine.
  void run_by(const RunClock* clock) { clock_ = clock; }
  const RunClock* clock() const { return clock_; }

  // Recomputes so many layers of each stage in the steps from here on, which changes no bit. Every rank calls it with
  // the same numbers. recompute_layers() are those of the configuration until then.
  void set_recompute_layers(const config::RecomputeLayers& layers);
  const config::RecomputeLayers& recompute_layers() const { return recompute_layers_; }

  // See Executor::record.
  void record_steps(StepRecorder* recorder) { own_.step.record(recorder); }

  // Sums up the times of the steps from here on, with the wait for their batches; null: none.
  void time_steps(StepTimes* times);
  // The work of this rank in the last step: its micro-batches, or their FLOPs where the family's samples differ in
  // size.
  double own_work() const { return own_work_; }
  // Sets the part of the metrics that says which ranks are slow, from the next step on.
  void set_watch(const observe::WatchMetrics& watch) { watch_ = watch; }

  // The record of what decides the last bits besides the configuration (kernel_record.h).
  Json kernels() const;

  // Everything that a run continues from; its tensors share memory with those of the trainer.
  checkpoint::State state();

  const config::Config& config() const { return config_; }
  const Peak& peak() const { return peak_; }
  const data::Source& data() const { return *data_; }
  // The number of rounds in which the ranks evaluate these samples.
  int64_t rounds(const data::HeldOut& held_out) const { return data_->rounds(held_out, first_round()); }
  models::Model& model() { return *model_; }
  optim::AdamW& optimizer() { return own_.optimizer; }
  const mesh::Mesh& mesh() const { return own_.cut.mesh; }
  // The samples of a micro-batch on each data-parallel rank; without effect beside a budget.
  int64_t micro_batch() const { return micro_batch_; }
  parallel::CutModel& cut() { return own_.cut; }
  int64_t rank() const { return world_->rank(); }
  comm::Comm& saving_group() { return *own_.cut.groups.saving; }
  int64_t steps_done() const { return steps_done_; }
  int64_t items_done() const { return items_done_; }
  int64_t samples_done() const { return ramp_.samples_before(steps_done_ + 1); }
  observe::MetricNames metric_names() const;
  // ", perplexity 31.2" for figures of an evaluation; the first few of many.
  std::string figures_text(const std::vector<double>& evaluated) const;
  const std::vector<observe::Figure>& figures() const { return figures_; }
  at::Device device() const { return device_; }

 private:
  // This rank's micro-batches of a step: micro_batches() has them on the device, batches_on_host() makes them from the
  // source in the memory of the host, on any thread.
  std::vector<models::Batch> micro_batches(int64_t step);
  // Leaves this rank its positions of the samples.
  void cut_positions(data::MicroBatch& batch) const;
  std::vector<models::Batch> batches_on_host(int64_t step, std::stop_token stop) const;
  // The share of a data-parallel rank in a step, and what it reads in the step and in an evaluation after it.
  data::StepShare share_of(int64_t step, int64_t data_rank) const;
  data::FileRanges reads(int64_t step, int64_t data_rank, const data::TensorNames& names) const;
  // The most held-out samples of an evaluation over so many global batches.
  uint64_t held_out_limit(int64_t batches) const;
  void stage_data();
  // The counts of a step's micro-batches on all ranks together.
  struct StepCounts {
    std::vector<double> of_losses = {};  // for each loss of the model, what it is summed over; 1 where there is nothing
    std::vector<double> of_copy = {};    // the same on the ranks whose gradients are summed
    double flops = 0;                    // of the model; 0 unless samples differ in size
    double own_work = 0;                 // see own_work()
  };
  // Aborts unless all ranks have the same number of micro-batches.
  StepCounts summed_counts(const std::vector<models::Batch>& batches);
  // Whether the family's samples differ in size.
  bool samples_differ() const;
  // The FLOPs of the model's forward and backward for this micro-batch; used where samples differ in size.
  double flops_of(const models::Batch& batch) const;
  data::RoundShare first_round() const;
  // The sums of the losses over the held-out samples of a dataset and all ranks; nothing if a stop was requested.
  std::optional<observe::TermSums> held_out_sums(const data::HeldOut& held_out);
  HeldOutFigures figures_of(const std::string& dataset, const observe::TermSums& sums) const;
  // Whether a stop was requested on any rank. Called by all ranks at the same place.
  bool must_stop();
  // The sum over all ranks.
  int64_t sum_of(int64_t value, const char* what);
  // Fills the report. Returns what the gradients are multiplied by, or nothing if the update is left out.
  std::optional<double> judge_gradients(double loss, const optim::GradientNorm& gradients,
                                        const std::vector<models::Batch>& batches, StepReport& report);
  // Whether the gradient noise scale is measured in the step, in which this rank has so many micro-batches.
  bool measures_noise_scale(int64_t step, size_t micro_batches) const;
  // Adds a measurement to the noise scale, which the metrics then show. `first` is this rank's first micro-batch,
  // `samples` those of the step, and `gradient_norm` that of the step's mean gradient. Called by all ranks.
  void measure_noise_scale(const models::Batch& first, int64_t samples, double gradient_norm,
                           observe::StepMetrics& metrics);
  // Adds the MFU of a step. A step that is faster than the peak shows that the peak was measured too low; its rate
  // becomes the peak.
  void add_mfu(double step_flops, observe::StepMetrics& metrics);
  [[noreturn]] void stop_not_finite(const StepReport& report, const std::string& first_bad);
  [[noreturn]] void stop_skipping();
  // Whether states are checked when this step has ended: every check_states_every steps, and where they are saved.
  bool checks_states_after(int64_t step) const;
  void check_states();
  // Called before a step's computation; checks the states before the first step of a start.
  void begin_checks(int64_t step);
  // Begins the check of a step's computation if it is due.
  void begin_computation_check(const models::Pass& pass);
  // Called when the gradients are complete: whether the checks of this step found nothing.
  bool passes_checks();
  // Leaves the run where they found something.
  void act_on_findings(const models::Pass& pass);
  models::Batch first_batch(int64_t step, int64_t data_rank) const;
  // Leaves the run where `found`, the same on all ranks, is not empty.
  void act_on_corruption(int64_t step, const std::string& found);
  // Looks for a spike in a finite step, and records one. Whether its update is left out, the same on all ranks. Called
  // by all ranks.
  bool leaves_out_spike(const StepReport& report, const std::vector<models::Batch>& batches);
  // Leaves the run where such a step is to be left out from its newest checkpoint on.
  void go_back_before_spike(int64_t step);
  std::vector<double> losses_of_micro_batches(const std::vector<models::Batch>& batches);
  Json micro_batch_records(int64_t step, const std::vector<double>& losses) const;
  void record_spike(int64_t step, const optim::Spike& spike, const std::vector<models::Batch>& batches);
  void extend_spike_record(int64_t step);
  std::filesystem::path spike_record_path(int64_t step) const;
  void write_spike_record() const;
  // The entries of checkpoints about spikes.
  Json spike_window() const;
  void restore_spikes(const Json& saved);
  // Logs what differs between the run that saved the checkpoint and this one, so that the last bits do.
  void warn_of_other_bits(const checkpoint::Reader& checkpoint) const;
  // Reads a checkpoint on this rank. Throws a Refusal on every rank if any rank throws a UserError.
  void agree_on(const std::function<void()>& read);
  // The purpose of collections of tensors. For saving, they hold what this rank writes; for reading, also copies of
  // tensors that other tensor ranks write.
  enum class Purpose { save, read };
  std::vector<checkpoint::Collection> collections(Purpose purpose);
  checkpoint::Collection buffer_collection(Purpose purpose);
  // The collections of the model alone, for reading.
  std::vector<checkpoint::Collection> model_collections() {
    return {collections(Purpose::read).front(), buffer_collection(Purpose::read)};
  }
  // Reads weights in agreement with all ranks and brings them to those that hold copies.
  void take_weights(const std::function<void()>& read);

  std::unique_ptr<comm::World> solo_;  // if no world was given
  comm::World* world_;
  config::Config config_;
  Peak peak_;  // ranks raise it by their own clocks and may differ; only the first rank's is written
  bool peak_raised_ = false;
  ops::KernelChoice kernels_;
  at::Device device_;
  std::unique_ptr<data::Source> data_;
  std::unique_ptr<models::Model> model_;
  std::vector<models::LossTerm> losses_;
  std::vector<observe::Figure> figures_;
  // That of one sample; null once the trainer is made, since that of a long model is larger than a rank's weights.
  std::shared_ptr<const schedule::UnitTable> unit_table_;
  RankModel own_;
  StateCheck state_check_;
  int64_t states_checked_ = -1;  // after so many steps; -1: not yet
  ComputationCheck computation_check_;
  std::string corruption_;       // what the checks of the present step found in the states; the same on all ranks
  bool computed_wrong_ = false;  // whether the check of its computation found something
  MemoryFaults faults_;
  optim::SpikeDetector spikes_;
  ParameterNorms norms_;
  std::string spike_to_leave_out_;  // what the present step is, if the run goes back because of it; else ""
  Json spike_record_;               // the latest one, on the first rank
  int64_t recorded_until_ = 0;      // the last step whose norms belong to it
  std::set<int64_t> left_out_steps_;
  config::RecomputeLayers recompute_layers_;
  int64_t micro_batch_;
  double sample_flops_ = 0;             // counted FLOPs of one sample
  data::TensorNames tensors_of_model_;  // of a batch, that any unit reads
  data::TensorNames tensor_names_;
  Json data_record_;  // data_->identity(), computed by one rank for all
  optim::LossScale loss_scale_;
  optim::NoiseScale noise_scale_;
  data::BatchRamp ramp_;
  std::vector<std::unique_ptr<Hook>> hooks_;
  std::string stop_reason_;
  bool started_ = false;
  int64_t steps_done_ = 0;
  int64_t began_after_ = 0;  // the steps done before this start
  int64_t items_done_ = 0;
  int64_t skipped_in_a_row_ = 0;
  StepTimes* times_ = nullptr;
  const RunClock* clock_ = nullptr;
  double own_work_ = 0;
  std::optional<observe::WatchMetrics> watch_;
  std::shared_ptr<DataStage> stage_;                              // null unless data.stage is given
  data::BatchesAhead<std::vector<models::Batch>> batches_ahead_;  // the last member: its threads use others
};

}  // namespace terrace::train
