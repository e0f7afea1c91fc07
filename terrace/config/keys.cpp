// Defines the keys that every configuration has.
#include <algorithm>
#include <filesystem>
#include <iterator>

#include "terrace/config/family.h"
#include "terrace/config/section_keys.h"

namespace terrace::config {
namespace {

constexpr OnResume fixed = OnResume::fixed;
constexpr OnResume may_change = OnResume::may_change;

void add_train_keys(const Family* family, std::vector<Key>& list) {
  using T = TrainConfig;
  const SectionKeys train{"train", [](auto& config) -> decltype(auto) { return (config.train); }, list};
  train.required("global_batch", &T::global_batch, Whole{1, most_step_samples}, fixed, "8",
                 "Samples of a step; a sample of a language model is a sequence.");
  train.optional("micro_batch", &T::micro_batch, Whole{0, most_step_samples}, may_change,
                 "Samples that pass through the model at once; divides the samples of `global_batch` that each "
                 "data-parallel rank has. 0: all of them, or as many as fit `micro_batch_sizes`.");
  train.feature("micro_batch_sizes", &T::micro_batch_sizes,
                SizesByName{.number = Whole{1, most_samples},
                            .words = family == nullptr ? std::vector<std::string>{} : family->settings.sizes},
                may_change,
                "In place of `micro_batch`, for a family whose samples differ in size: the most that passes through "
                "the model at once of each of these sizes. Micro-batches take as many samples as fit.");
  train.required("steps", &T::steps, Whole{1, most_steps}, may_change, "1000", "Optimizer steps, counted from 1.");
  train.optional("precision", &T::precision, Choice<Precision>{}, fixed,
                 "Type of weights and activations in forward and backward; bf16 and fp16 keep fp32 master weights.");
  train.optional("gradient_type", &T::gradient_type, Choice<Precision>{}, fixed,
                 "Type in which gradients are accumulated: fp32, or the same as `precision`.");
  train.optional("recompute", &T::recompute, Choice<Recompute>{}, may_change,
                 "Which activations the backward pass computes again instead of keeping them: none, those of "
                 "attention, or those of whole blocks.");
  train.optional("seed", &T::seed, Whole{}, fixed, "Seed of initial weights, dropout and the order of the data.");
  train.optional("device", &T::device, Word{{"auto", "cpu", "cuda"}}, may_change,
                 "Device that computes; auto: cuda if there is one, otherwise cpu.");
  train.optional("check_memory", &T::check_memory, Flag{}, may_change,
                 "Whether a run that needs more memory than is left is refused; false: it starts with a warning.");
  train.optional("threads", &T::threads, Whole{0, 4096}, may_change,
                 "CPU threads of each rank. 0: the cores that the process may use, divided among its ranks.");
  train.optional("evaluate_every", &T::evaluate_every, Whole{0, most_steps}, may_change,
                 "Steps between evaluations on held-out data. 0: never.");
  train.optional("evaluate_batches", &T::evaluate_batches, Whole{0, most_steps}, may_change,
                 "Global batches in an evaluation. 0: all held-out data.");
  train.optional("log_every", &T::log_every, Whole{1, most_steps}, may_change,
                 "Steps between log lines if standard error is not a terminal.");
  train.optional("noise_scale_every", &T::noise_scale_every, Whole{0, most_steps}, may_change,
                 "Steps between measurements of the gradient noise scale, the batch above which more samples in a step "
                 "save few steps (docs/training.md). 0: never.");
  train.optional("on_nan", &T::on_nan, Choice<OnNan>{}, may_change,
                 "What happens if the loss is not finite: the run stops, or the step is skipped.");
  train.optional("check_states_every", &T::check_states_every, Whole{0, most_steps}, may_change,
                 "Steps between checks of weights, optimizer states and summed gradients for bits that changed in the "
                 "memory of a rank (docs/corruption.md). 0: never.");
  train.optional(
      "check_computation_every", &T::check_computation_every, Whole{0, most_steps}, may_change,
      "Steps between checks in which every rank computes a micro-batch of another one again, whose gradients "
      "must have the same bits (docs/corruption.md). 0: never.");
  train.optional("on_corruption", &T::on_corruption, Choice<OnCorruption>{}, may_change,
                 "What happens where one of these checks finds something: the run stops, or loads its newest "
                 "checkpoint again.");
  train.optional("on_spike", &T::on_spike, Choice<OnSpike>{}, may_change,
                 "What happens where the loss or the gradient norm jumps up (docs/training.md): nothing; a warning and "
                 "a record of the step's samples; also its update is left out; or the run also goes back to its newest "
                 "checkpoint and leaves the step's samples out.");
  train.optional(
      "spike_threshold", &T::spike_threshold, Real{.least = 1}, may_change,
      "A loss or gradient norm is a spike if it is above the median of the last `spike_window` steps by this "
      "many deviations.");
  train.optional("spike_window", &T::spike_window, Whole{4, 1'000}, may_change,
                 "Steps over which the median and the deviation of losses and gradient norms are taken.");
  train.optional("ramp_start", &T::ramp_start, Whole{0, most_step_samples}, fixed,
                 "Batch-size ramp-up: samples of the first step. 0: no ramp-up.");
  train.optional("ramp_increment", &T::ramp_increment, Whole{0, most_step_samples}, fixed,
                 "Samples that each increment of the ramp-up adds.");
  train.optional("ramp_samples", &T::ramp_samples, Whole{0, most_samples}, fixed,
                 "Samples over which the increments are spread evenly.");
  train.optional("skip_steps", &T::skip_steps, Ranges{}, may_change,
                 "First and last step of ranges whose update is skipped, such as [[10, 12]].");
  train.optional("initial_loss_scale", &T::initial_loss_scale, Real{.least = 1}, fixed,
                 "Loss scale at the start of a run in fp16.");
  train.optional("loss_scale_window", &T::loss_scale_window, Whole{1, most_steps}, may_change,
                 "Steps without an overflow after which the loss scale doubles, in fp16.");
  train.optional(
      "initial_weights", &T::initial_weights, Text{.may_be_empty = true}, OnResume::names_fixed,
      "A checkpoint from which a new run takes the weights, and the statistics of its data where [data] names none "
      "(`statistics`); a resumed run does not read it.");
  train.optional("time_limit", &T::time_limit, Duration{}, may_change,
                 "The run stops with a checkpoint after the step that reaches this time, counted from the start of the "
                 "program. 0: no limit.");
}

void add_optimizer_keys(std::vector<Key>& list) {
  using O = OptimizerConfig;
  const SectionKeys optimizer{"optimizer", [](auto& config) -> decltype(auto) { return (config.optimizer); }, list};
  optimizer.required("learning_rate", &O::learning_rate, positive, may_change, "3e-4", "Peak learning rate.");
  optimizer.optional("schedule", &O::schedule, Choice<Decay>{}, may_change,
                     "How the rate decays after the warm-up; wsd: warm-up, stable, decay.");
  optimizer.optional("warmup_steps", &O::warmup_steps, Whole{0, most_steps}, may_change,
                     "The rate rises linearly and reaches its peak at this step.");
  optimizer.optional("decay_steps", &O::decay_steps, Whole{0, most_steps}, may_change,
                     "Cosine and linear: the step at which the decay ends, 0: `train.steps`. wsd: the number of steps "
                     "of the final decay.");
  optimizer.optional("min_learning_rate", &O::min_learning_rate, Real{}, may_change,
                     "The rate at the end of the decay.");
  optimizer.optional("weight_decay", &O::weight_decay, Real{}, may_change,
                     "Weight decay of matrices; norms and biases have none.");
  optimizer.optional("beta1", &O::beta1, share, may_change, "Decay rate of the mean of the gradients in AdamW.");
  optimizer.optional("beta2", &O::beta2, share, may_change,
                     "Decay rate of the mean of the squared gradients in AdamW.");
  optimizer.optional("epsilon", &O::epsilon, positive, may_change,
                     "Added to the square root of the mean of the squared gradients in AdamW.");
  optimizer.optional("clip", &O::clip, Real{}, may_change, "Largest global gradient norm. 0: no clipping.");
  optimizer.optional("outer_learning_rate", &O::outer_learning_rate, positive, may_change,
                     "With `layout.outer_every`: the rate of the update by the mean difference of the copies.");
  optimizer.optional("outer_momentum", &O::outer_momentum, share, may_change,
                     "With `layout.outer_every`: the Nesterov momentum of this update. 0 with a rate of 1: copies "
                     "continue from their mean, which suits runs of few updates.");
}

void add_layout_keys(std::vector<Key>& list) {
  using L = LayoutConfig;
  const SectionKeys layout{"layout", [](auto& config) -> decltype(auto) { return (config.layout); }, list};
  layout.optional("order", &L::order, OrderOf{{"pipeline", "data", "tensor"}}, may_change,
                  "Axes of the mesh, outermost first: ranks that differ in the last one alone are neighbours.");
  layout.optional("pipeline", &L::pipeline, Whole{1, most_ranks}, may_change,
                  "Pipeline stages, among which the layers are divided; micro-batches pass from stage to stage.");
  layout.optional("schedule", &L::schedule, Choice<PipelineSchedule>{}, may_change,
                  "The order of the stages' computations; docs/schedules.md draws each schedule.");
  layout.optional(
      "chunks", &L::chunks, Whole{1, 1'000}, may_change,
      "Virtual stages (consecutive parts of the model) of each stage: more than one for interleaved, two for zb-v.");
  layout.optional("stage_layers", &L::stage_layers, WholeNumbers{}, may_change,
                  "Number of layers of each virtual stage, in order: pipeline * chunks numbers. Empty: layers are "
                  "divided by their cost.");
  layout.optional(
      "recompute_layers", &L::recompute_layers, LayersOfStages{}, may_change,
      "With `train.recompute`: how many layers of each stage are recomputed, from the stage's first on; one "
      "number for all stages, or a list. fit: as few as the memory allows.");
  layout.optional("tensor", &L::tensor, Whole{1, most_ranks}, may_change,
                  "Neighbouring ranks among which the matrices of every layer are cut; divides the heads, ffn_width "
                  "and the padded vocabulary.");
  layout.optional("sequence_parallel", &L::sequence_parallel, Flag{}, may_change,
                  "With `tensor` above 1, the hidden states between the cut matrices are cut along the sequence, which "
                  "saves memory.");
  layout.optional("context", &L::context, Whole{1, most_ranks}, may_change,
                  "Ranks among which the positions of each sample are cut for the whole model, so that long sequences "
                  "fit; weights, gradients and optimizer states are cut over them as over data-parallel ranks.");
  layout.optional("context_route", &L::context_route, Choice<ContextRoute>{}, may_change,
                  "How attention reaches the keys and values of other context ranks. ring: passed on from rank to rank "
                  "while the ones at hand are used; gather: all at once; heads: an all-to-all, after which each rank "
                  "has all positions of some heads; auto: what is predicted to be faster, ring without a machine.");
  layout.feature("experts", &L::experts, Whole{1, most_ranks}, may_change,
                 "Ranks that divide the experts of each layer: neighbours among the tensor, context and data-parallel "
                 "ranks of a pipeline stage. Each token goes to the ranks that have its experts, and comes back.");
  layout.optional("sharding", &L::sharding, Choice<Sharding>{}, may_change,
                  "Which of weights, gradients and optimizer states are cut over the data-parallel ranks; "
                  "docs/sharding.md has a table of the names.");
  layout.optional(
      "shard_group", &L::shard_group, Whole{0, most_ranks}, may_change,
      "Ranks that share one copy of weights, gradients and optimizer states, with `sharding = \"hybrid\"`.");
  layout.optional("shard_weights", &L::shard_weights, GroupOfRanks{}, may_change,
                  "Ranks that share one copy of the weights, instead of the number that `sharding` implies.");
  layout.optional("shard_gradients", &L::shard_gradients, GroupOfRanks{}, may_change,
                  "Ranks that share one copy of the gradients, instead of the number that `sharding` implies.");
  layout.optional("shard_optimizer", &L::shard_optimizer, GroupOfRanks{}, may_change,
                  "Ranks that share one copy of the optimizer states, instead of the number that `sharding` implies.");
  layout.optional("prefetch", &L::prefetch, Whole{0, 1'000}, may_change,
                  "Segments of the model (a layer, the embedding, the head) whose weights are gathered ahead of their "
                  "use, if weights are cut.");
}

// The keys of [layout] that say how weights and gradients travel.
void add_movement_keys(std::vector<Key>& list) {
  using L = LayoutConfig;
  const SectionKeys layout{"layout", [](auto& config) -> decltype(auto) { return (config.layout); }, list};
  layout.optional("gather_type", &L::gather_type, Choice<WireType>{}, may_change,
                  "Type in which weights are sent when they are gathered for forward or backward; same: the type in "
                  "which they are kept; int8, int4 and fp8: in blocks of 256 values with a scale each.");
  layout.optional(
      "reduce_type", &L::reduce_type, Choice<WireType>{}, may_change,
      "Type in which gradients are sent when they are reduced; int8, int4 and fp8 are rounded at random and "
      "summed in fp32.");
  layout.optional(
      "error_feedback", &L::error_feedback, Flag{}, may_change,
      "With a quantized `reduce_type`: each rank rounds its gradients to nearest, keeps the errors and adds "
      "them to its next gradients; takes about one byte for each element that it reduces.");
  layout.optional("update_type", &L::update_type, Choice<WireType>{}, may_change,
                  "Type in which updated weights are sent after the optimizer step, as for `gather_type`.");
  layout.optional(
      "node_type", &L::node_type, Choice<NodeType>{}, may_change,
      "Type that replaces int8, int4 and fp8 in calls among ranks of one node, whose links are fast: quantizing costs "
      "more than it saves there. as others: the types of the calls between nodes.");
  layout.optional(
      "route", &L::route, Choice<Routing>{}, may_change,
      "How weights and gradients move among several nodes. flat: in one call; rails: in two, one inside each "
      "node and one among the ranks with the same place in their nodes; auto: what `observe.machine` "
      "predicts to be faster, flat without a machine.");
  layout.optional(
      "rails_gather", &L::rails_gather, Choice<RailsGather>{}, may_change,
      "How weights are gathered between nodes by rails. library: as MPI or NCCL does; doubling: in a number of "
      "messages "
      "that is the logarithm of the nodes; auto: what `observe.machine` predicts to be faster, library without a "
      "machine.");
  layout.optional("outer_every", &L::outer_every, Whole{0, most_steps}, may_change,
                  "Steps that each copy of the optimizer states makes by itself, until all are brought together by an "
                  "update with their mean difference (DiLoCo). 0: gradients are summed over the copies in every step. "
                  "A run may begin with 0 and be resumed with copies.");
  layout.optional("outer_type", &L::outer_type, Choice<WireType>{}, may_change,
                  "Type in which the differences are sent every `outer_every` steps, as for `reduce_type`.");
  layout.optional("deterministic", &L::deterministic, Flag{}, may_change,
                  "Gradients are summed over all ranks at once, in rank order and for each micro-batch, so that every "
                  "`sharding` gives the same bits; slower across machines.");
  layout.optional("ranks_per_pair", &L::ranks_per_pair, Whole{1, 1'024}, may_change,
                  "Neighbouring ranks that share the fastest link, such as the two dies of a package.");
  layout.optional("ranks_per_node", &L::ranks_per_node, Whole{0, most_ranks}, may_change,
                  "Neighbouring ranks on one machine. 0: the number that the launcher reports.");
  layout.optional("timeout", &L::timeout, Duration{}, may_change,
                  "How long a rank waits for another rank before the run fails and reports what each rank waits for.");
  layout.optional("check_calls", &L::check_calls, Flag{}, may_change,
                  "Kind, type, size and purpose of each collective are compared across ranks before it runs.");
  layout.optional("share_gpus", &L::share_gpus, Flag{}, may_change,
                  "Several ranks may use one GPU, to try a layout: they exchange data through the machine's memory.");
}

void add_checkpoint_keys(std::vector<Key>& list) {
  using C = CheckpointConfig;
  const SectionKeys checkpoint{"checkpoint", [](auto& config) -> decltype(auto) { return (config.checkpoint); }, list};
  checkpoint.required("folder", &C::folder, Text{}, may_change, "\"runs/first\"",
                      "The run's folder, for checkpoints and metrics.jsonl.");
  checkpoint.optional("every", &C::every, Whole{0, most_steps}, may_change,
                      "Steps between checkpoints. 0: only at the end.");
  checkpoint.optional("keep", &C::keep, Whole{0, most_steps}, may_change,
                      "Number of newest checkpoints that are kept. 0: all.");
  checkpoint.optional("keep_every", &C::keep_every, Whole{0, most_steps}, may_change,
                      "Checkpoints at multiples of this step are kept as well; a multiple of `every`. 0: none.");
  checkpoint.optional(
      "background", &C::background, Flag{}, may_change,
      "Training continues while a copy of its state, which takes 12 bytes a parameter in memory, is written.");
  checkpoint.optional("staging", &C::staging, Text{.may_be_empty = true}, may_change,
                      "A folder on a fast local disk into which checkpoints are written before they are copied to "
                      "`folder`. Empty: none.");
  checkpoint.optional(
      "memory_every", &C::memory_every, Whole{0, most_steps}, may_change,
      "Steps between copies of the training state in the memory of the nodes, each in that of two, from "
      "which a run continues after the loss of a node. 0: none.");
  checkpoint.optional("memory_folder", &C::memory_folder, Text{}, may_change,
                      "The folder on each node for these copies, on a file system in memory.");
}

void add_observe_keys(std::vector<Key>& list) {
  using O = ObserveConfig;
  const SectionKeys observe{"observe", [](auto& config) -> decltype(auto) { return (config.observe); }, list};
  observe.optional("tensorboard", &O::tensorboard, Flag{}, may_change,
                   "Event files for TensorBoard, in `tensorboard` in the run's folder.");
  observe.optional("csv", &O::csv, Flag{}, may_change, "metrics.csv in the run's folder, with a row for each step.");
  observe.optional(
      "machine", &O::machine, Text{.may_be_empty = true}, may_change,
      "A description of the machine, for a prediction of the step that is compared with the first steps: a "
      "built-in name, a file of `terrace calibrate`, or \"measure\", which calibrates at the start in half a "
      "minute. Empty: no prediction.");
}

// The key model.family, which comes before the family's own keys.
void add_family_key(const Family* family, std::vector<Key>& list) {
  const std::string word = toml_text(family == nullptr ? "" : family->name);
  const auto write = [word](const Config&) { return std::string(word); };
  list.push_back({.section = "model",
                  .name = "family",
                  .values = word,
                  .about = family == nullptr ? "" : family->about,
                  .on_resume = fixed,
                  .example = "",
                  .read = [](const toml::node&, Config&) { return ""; },  // parse() reads it before all others
                  .write = write,
                  .identity = write});
}

}  // namespace

std::vector<Key> core_keys(const Family* family) {
  std::vector<Key> list;
  add_family_key(family, list);
  add_train_keys(family, list);
  add_optimizer_keys(list);
  add_layout_keys(list);
  add_movement_keys(list);
  add_checkpoint_keys(list);
  add_observe_keys(list);
  return list;
}

std::string without_folder(const std::string& path) {
  return (std::filesystem::path(path) / "").lexically_normal().parent_path().filename().string();
}

std::vector<std::string> without_folder(std::vector<std::string> paths) {
  for (std::string& path : paths) path = without_folder(path);
  return paths;
}

std::vector<std::string> section_names() {
  return {"model", "data", "train", "optimizer", "layout", "checkpoint", "observe"};
}

bool is_family_section(std::string_view section) { return section == "model" || section == "data"; }

const Key* find_key(const std::vector<Key>& keys, std::string_view full_name) {
  const auto found = std::ranges::find(keys, full_name, &Key::full_name);
  return found == keys.end() ? nullptr : &*found;
}

}  // namespace terrace::config
