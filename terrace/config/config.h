// The whole configuration of a run as plain structs, one per table of the TOML file, with the default of every key.
// [model] and [data] belong to the model's family, see family.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/text/sizes.h"
#include "terrace/config/family_settings.h"

namespace terrace::config {

enum class Precision { fp32, bf16, fp16 };
// Bytes of one number of this precision.
inline int64_t element_bytes(Precision precision) { return precision == Precision::fp32 ? 4 : 2; }

enum class Recompute { none, selective, full };
enum class Decay { cosine, linear, constant, wsd };  // wsd: warm-up, stable, decay
enum class OnNan { stop, skip };
enum class OnCorruption { stop, reload };
enum class OnSpike { ignore, warn, skip, back };
enum class Sharding { ddp, zero1, zero2, zero3, hybrid, node, three_level };
enum class Routing { automatic, flat, rails };               // of movements among several nodes
enum class ContextRoute { automatic, ring, gather, heads };  // of keys and values among context ranks
enum class RailsGather { automatic, library, doubling };     // of weights between nodes, by rails
enum class WireType { same, fp32, bf16, int8, int4, fp8 };   // the last three in blocks, see wire_type.h
enum class NodeType { as_others, same, fp32, bf16 };         // a WireType of calls inside nodes
enum class PipelineSchedule { gpipe, one_f_one_b, interleaved, zb_h1, zb_v };  // see schedule/pipeline/pipeline.h

struct TrainConfig {
  int64_t global_batch = 0;  // samples of a step
  int64_t micro_batch = 0;   // samples; 0: all samples of a rank in a step, or as many as fit micro_batch_sizes
  Sizes micro_batch_sizes;   // the most that a micro-batch holds of each of these sizes; empty: no budget
  int64_t steps = 0;
  Precision precision = Precision::fp32;
  Precision gradient_type = Precision::fp32;  // in which gradients are accumulated
  Recompute recompute = Recompute::none;
  uint64_t seed = 1;
  std::string device = "auto";    // auto, cpu, cuda
  bool check_memory = true;       // a run that needs more memory than is left is refused
  int64_t threads = 0;            // 0: one per core
  int64_t evaluate_every = 0;     // steps; 0: never
  int64_t evaluate_batches = 0;   // global batches of held-out data; 0: all of them
  int64_t log_every = 10;         // steps between log lines if standard error is not a terminal
  int64_t noise_scale_every = 0;  // steps between measurements of the gradient noise scale; 0: never
  OnNan on_nan = OnNan::stop;
  int64_t check_states_every = 0;       // steps between checks of what ranks hold in memory; 0: never
  int64_t check_computation_every = 0;  // steps between checks of what ranks compute; 0: never
  OnCorruption on_corruption = OnCorruption::stop;
  OnSpike on_spike = OnSpike::ignore;
  double spike_threshold = 10.0;  // deviations from the median from which on a loss or gradient norm is a spike
  int64_t spike_window = 50;      // steps over which these are taken
  // Batch-size ramp-up: a step begins with ramp_start samples and grows by ramp_increment samples at a time, evenly
  // over the first ramp_samples samples of the run.
  int64_t ramp_start = 0;  // 0: no ramp-up
  int64_t ramp_increment = 0;
  int64_t ramp_samples = 0;
  std::vector<std::pair<int64_t, int64_t>> skip_steps;  // first and last step of each range whose update is skipped
  double initial_loss_scale = 65536.0;                  // fp16
  int64_t loss_scale_window = 1000;                     // fp16: good steps until the scale doubles
  std::string initial_weights;  // a checkpoint from which a new run takes the weights and nothing else
  double time_limit = 0.0;      // seconds; the run stops after the step that reaches the limit; 0: none
  bool operator==(const TrainConfig&) const = default;
};

struct OptimizerConfig {
  double learning_rate = 0.0;
  Decay schedule = Decay::cosine;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // cosine, linear: the last step of the decay, 0: train.steps; wsd: steps of the final decay
  double min_learning_rate = 0.0;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double clip = 1.0;  // global gradient norm; 0: off
  // The updates every layout.outer_every steps (parallel/outer_steps.h) have these.
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;
  bool operator==(const OptimizerConfig&) const = default;
};

// The number of data-parallel ranks over which weights, gradients or optimizer states are cut. as_sharding: `sharding`
// decides.
struct ShardGroup {
  enum class Word { as_sharding, none, pair, node, all, number };
  Word word = Word::as_sharding;
  int64_t number = 0;

  bool operator==(const ShardGroup&) const = default;
};

// The number of layers of each stage that are recomputed as train.recompute says.
struct RecomputeLayers {
  // fit: as few as the memory of a device allows.
  enum class Word { all, fit, numbers };
  Word word = Word::all;
  std::vector<int64_t> numbers = {};  // of each stage, or one number for all stages; empty unless `word` is numbers

  bool operator==(const RecomputeLayers&) const = default;
};

// Settings of [layout], which say how the model and its training are divided among the ranks.
struct LayoutConfig {
  int64_t pipeline = 1;  // stages among which the layers are divided
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int64_t chunks = 1;                      // virtual stages of each stage
  std::vector<int64_t> stage_layers = {};  // of each virtual stage in order; empty: divided by cost
  RecomputeLayers recompute_layers = {};
  std::vector<std::string> order = {"pipeline", "data", "tensor"};  // axes of the mesh, outermost first
  int64_t tensor = 1;                                               // ranks among which the matrices of a layer are cut
  bool sequence_parallel = false;  // hidden states between these matrices are cut along the sequence
  int64_t experts = 1;             // ranks that divide the experts of each layer
  int64_t context = 1;             // ranks among which the positions of each sample are cut
  ContextRoute context_route = ContextRoute::automatic;
  Sharding sharding = Sharding::ddp;
  int64_t shard_group = 0;  // hybrid: ranks that share one copy
  ShardGroup shard_weights = {}, shard_gradients = {}, shard_optimizer = {};
  int64_t prefetch = 1;  // segments whose weights are gathered ahead
  WireType gather_type = WireType::same, reduce_type = WireType::same, update_type = WireType::same;
  NodeType node_type = NodeType::as_others;  // instead of quantized types in calls inside one node
  bool error_feedback = false;               // errors of quantized gradients are kept and added to the next ones
  Routing route = Routing::automatic;
  RailsGather rails_gather = RailsGather::automatic;
  // Steps that each copy of the optimizer states makes by itself until the copies are brought together; 0: their
  // gradients are summed in every step.
  int64_t outer_every = 0;
  WireType outer_type = WireType::same;  // in which the differences are sent then
  bool deterministic = false;            // sums in rank order over all ranks at once
  int64_t ranks_per_pair = 2;            // that share a package
  int64_t ranks_per_node = 0;            // 0: the launcher's number
  double timeout = 600.0;                // seconds that a rank waits for another rank
  bool check_calls = false;              // collectives are compared across ranks before they run
  bool share_gpus = false;               // several ranks may use one GPU

  // Ranks that work on the same samples.
  int64_t ranks_of_samples() const { return tensor * pipeline * context; }
  bool operator==(const LayoutConfig&) const = default;
};

struct CheckpointConfig {
  std::string folder;                      // the run's folder
  int64_t every = 0;                       // steps; 0: only at the end
  int64_t keep = 3;                        // the newest; 0: all
  int64_t keep_every = 0;                  // checkpoints at multiples of this step are kept as well; 0: none
  bool background = true;                  // training continues while a copy of its state is written
  std::string staging;                     // node-local folder that checkpoints are first written into; "": none
  int64_t memory_every = 0;                // steps between copies of the states in the memory of nodes; 0: none
  std::string memory_folder = "/dev/shm";  // a folder in the memory of each node, for these copies

  // Whether checkpoints are written during training, for which the run keeps a copy of its state in memory.
  bool saves_beside_training() const { return background && every > 0; }
  bool operator==(const CheckpointConfig&) const = default;
};

struct ObserveConfig {
  bool tensorboard = false;  // event files beside metrics.jsonl
  bool csv = false;          // metrics.csv beside metrics.jsonl
  std::string machine;       // a description for the prediction of a step; "": none; "measure": measured at the start
  bool operator==(const ObserveConfig&) const = default;
};

// The data that a run trains on from a step on, one table of [[data.phases]]. A key that the table does not name has
// the value of the phase before.
struct Phase {
  int64_t from_step = 0;     // the first step of the phase
  int64_t global_batch = 0;  // samples of a step
  FamilySettings data = {};  // the struct of the family
  bool operator==(const Phase&) const = default;
};

struct Family;
// The families that a configuration can name; the first is the default.
using Families = std::vector<const Family*>;

struct Config {
  const Family* family = nullptr;  // of the model; outlives the configuration
  FamilySettings model, data;      // structs of the family
  std::vector<Phase> phases;       // in ascending order of their steps; phases.h
  TrainConfig train;
  OptimizerConfig optimizer;
  LayoutConfig layout;
  CheckpointConfig checkpoint;
  ObserveConfig observe;

  // A sentence for each key that a --set, or with IdleKeys::warn another key of the file, leaves without effect. The
  // key has its default above, and the sentence takes no part in the comparison of two configurations.
  std::vector<std::string> idle;

  bool operator==(const Config& other) const {
    return family == other.family && model == other.model && data == other.data && phases == other.phases &&
           train == other.train && optimizer == other.optimizer && layout == other.layout &&
           checkpoint == other.checkpoint && observe == other.observe;
  }
};

// Says what happens to a key that another key of the same file leaves without effect: it is refused as a user's
// mistake, or accepted, as in the configuration of a checkpoint that an earlier version wrote. Either way the key then
// has its default. `warn` accepts it with a sentence in Config::idle. `keep` accepts it and keeps the value of a --set,
// for a planner that varies the other key.
enum class IdleKeys { refuse, accept, warn, keep };

// Reads and checks the whole file. `overrides` are "section.key=value" with a TOML value, where a bare word counts as a
// string. In the result, zeros that mean "derive it" are replaced by the derived values, and a key without effect has
// its default. Throws one UserError with every problem: file, line, rule, numbers, valid values nearby, and for an
// unknown key the nearest known one or the family that has it. Does not open the files that the configuration names.
Config load(const std::filesystem::path& path, const Families& families,
            const std::vector<std::string>& overrides = {});
Config parse(const std::string& toml, const std::string& file_name, const Families& families,
             const std::vector<std::string>& overrides = {}, IdleKeys idle = IdleKeys::refuse);

// The resolved configuration as TOML, which parse() reads back to an equal Config. Keys that other keys leave without
// effect are omitted.
std::string dump(const Config& config);

// Numbers that follow from the number of ranks, by which keys have an effect or none.
struct RankFacts {
  int64_t all = 1, data = 1;           // of the run; of the data axis
  int64_t weights = 1, optimizer = 1;  // of the data axis, over which weights and optimizer states are cut
  int64_t typed_node = 1;              // of the data axis on each node, where layout.node_type is given
  bool feeds_back = true;              // whether a reduction keeps its errors where layout.error_feedback is given

  std::string data_text() const;  // "one data-parallel rank"
};

// A sentence for each key that is not at its default and has no effect in a run, because of a --set or of the number of
// ranks.
std::vector<std::string> idle_keys(const Config& config, const RankFacts& ranks);

// Throws UserError with both values of each key that differs but must not change when a run is resumed after
// `steps_done` steps, among them the keys of phases that have begun; docs/configuration.md lists these keys.
void check_resume(const Config& saved, const Config& now, int64_t steps_done);

}  // namespace terrace::config
