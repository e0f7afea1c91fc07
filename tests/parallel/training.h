// A few steps of training a small model on ranks that are threads, and everything that came of it put together again.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "terrace/base/random.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/data/data_of_family.h"
#include "terrace/models/families.h"
#include "terrace/models/gpt/cost/unit_table.h"
#include "terrace/models/gpt/model.h"
#include "terrace/nn/precision.h"
#include "terrace/optim/adamw.h"
#include "terrace/optim/gradient_norm.h"
#include "terrace/parallel/cut_model.h"
#include "terrace/parallel/states.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/train/rank_model.h"
#include "tests/parallel/layouts.h"
#include "tests/parallel/linear_stack.h"
#include "tests/parallel/metered_model.h"
#include "tests/parallel/small_vit_config.h"

namespace terrace::parallel {

struct Training {
  std::string model = "gpt2";  // gpt2, llama, stack, tied_stack, whole_stack; or of small_config(), vit_config()
  config::Precision precision = config::Precision::fp32;
  config::Recompute recompute = config::Recompute::none;
  int64_t first_step = 1;  // decides the data
  int64_t steps = 2;
  int64_t sequences = 24;   // a step, all ranks together
  int64_t micro_batch = 0;  // 0: a rank's share
  double clip = 1.0;
  bool deterministic = true;
  bool allocates_first = false;  // every rank allocates the whole model before it is cut, as no trainer does

  auto operator<=>(const Training&) const = default;
};

struct Outcome {
  std::vector<double> losses, norms;
  std::vector<std::vector<std::vector<double>>> tallies;  // of each step
  std::map<std::string, at::Tensor> buffers;              // of the first rank that has them, after the last step
  std::map<std::string, at::Tensor> gradients;            // of the last step, whole
  std::map<std::string, at::Tensor> weights, m, v;
  std::vector<StateBytes> bytes, peak_bytes;  // by rank, after the last step and until then
  std::vector<int64_t> optimizer_bytes;       // by rank
  // Bytes of the last step's tensors before each forward of the stage's first chunk, by rank.
  std::vector<std::vector<int64_t>> alive;
  // Kinds of calls of the last step by group, by rank.
  std::vector<std::map<std::string, std::map<comm::Kind, comm::Traffic>>> traffic;
};

constexpr int64_t small_sequence = 16, small_vocabulary = 61;
constexpr double learning_rate = 1e-2;

// Epsilon as the design asks for: at 1e-8 a gradient that is zero in exact arithmetic turns noise into steps.
inline config::OptimizerConfig optimizer_config() { return {.learning_rate = 0, .weight_decay = 0.1, .epsilon = 1e-4}; }

// Sizes that two, three and four tensor ranks divide: cut_gpt2, cut_llama, cut_qwen2, cut_qwen3, cut_mistral,
// cut_gemma3 and, with fewer keys and values than four ranks, those with "_sharing".
inline void cut_sizes(const std::string& name, models::gpt::ModelConfig& config) {
  config.heads = config.kv_heads = 12;
  config.ffn_width = 84;
  config.vocabulary_multiple = 24;
  if (name.starts_with("cut_gpt2")) {
    if (name.starts_with("cut_gpt2_erf")) config.activation = models::gpt::Activation::gelu_erf;
    config.dropout = 0.1;
    return;
  }
  config.positions = models::gpt::Positions::rotary;
  config.norm = models::gpt::Norm::rmsnorm;
  config.activation = models::gpt::Activation::swiglu;
  config.tied_head = config.bias = false;
  config.qkv_bias = name.starts_with("cut_qwen2");
  config.qk_norm = name.starts_with("cut_qwen3");
  config.window = name.starts_with("cut_mistral") ? 5 : 0;
  const bool sharing = name.find("_sharing") != std::string::npos;
  config.kv_heads = sharing ? 2 : 6;
  if (sharing) config.heads = 4;
  if (!name.starts_with("cut_gemma3")) return;
  config.norm = models::gpt::Norm::rmsnorm_1p;
  config.activation = models::gpt::Activation::geglu;
  config.window = 5;
  config.global_every = 2;
  config.local_rope_theta = 50.0;
  config.query_scalar = 9.0;
  config.qk_norm = config.post_norms = config.scaled_embeddings = config.tied_head = true;
}

// Experts of odd sizes, some of which get no token of a micro-batch: as Mixtral's, with shared ones and a dense layer
// as Qwen2-MoE's, and with sigmoids, groups and a bias as DeepSeek-V3's.
inline void set_experts(const std::string& name, models::gpt::ExpertsConfig& experts) {
  experts = {.number = 6, .per_token = 2, .width = 37, .balance_loss = 0.5, .z_loss = 0.1};
  if (name.find("_shared") != std::string::npos) {
    experts.width = 36;
    experts.shared = 2;
    experts.shared_gate = true;
    experts.dense_layers = 1;
    experts.normalise = false;
  }
  if (name.find("_grouped") == std::string::npos) return;
  experts.number = 12;
  experts.router = models::gpt::Router::sigmoid;
  experts.factor = 2.5;
  experts.groups = 4;
  experts.groups_kept = 2;
  experts.bias = true;
  experts.bias_rate = 0.01;
}

inline models::gpt::ModelConfig small_config(const std::string& name) {
  models::gpt::ModelConfig config;
  config.layers = 2;
  config.width = 48;
  config.heads = config.kv_heads = 3;
  config.head_dim = 16;
  config.ffn_width = 150;
  config.sequence = small_sequence;
  config.vocabulary = small_vocabulary;
  config.vocabulary_multiple = 8;
  config.init_std = 0.1;
  if (name.starts_with("llama") || name.starts_with("qwen") || name == "mistral") {
    config.positions = models::gpt::Positions::rotary;
    config.norm = models::gpt::Norm::rmsnorm;
    config.activation = models::gpt::Activation::swiglu;
    config.tied_head = config.bias = false;
    config.heads = 4;
    config.kv_heads = 2;
    config.qkv_bias = name.starts_with("qwen2");
    config.qk_norm = name.starts_with("qwen3");
    config.window = name == "mistral" ? 5 : 0;
  }
  if (name.starts_with("cut_")) cut_sizes(name, config);
  if (name.starts_with("cut_experts")) set_experts(name, config.experts);
  if (name.ends_with("_deep")) config.layers = 6;
  return config;
}

inline std::unique_ptr<models::Model> small_model(const Training& training, at::ScalarType type, bool allocate = true,
                                                  int64_t context_ranks = 1) {
  const nn::Build build{.type = type, .allocate = allocate, .context_ranks = context_ranks};
  if (training.model.ends_with("stack")) {
    const bool whole = training.model.ends_with("whole_stack");
    const int64_t layers = whole ? 2 : training.model == "cut_deep_stack" ? 8 : 4;
    return std::make_unique<LinearStack>(small_sequence, 67, layers, whole, training.model == "tied_stack", build,
                                         training.model.starts_with("cut_") ? 72 : 0);
  }
  if (is_vit(training.model)) return models::build_model(vit_config(training.model), build);
  return models::gpt::build_model(small_config(training.model), build);
}

// The options count for models other than stacks.
inline schedule::UnitTable small_table(const Training& training, const schedule::UnitTableOptions& options = {}) {
  const bool is_gpt = !training.model.ends_with("stack");
  if (is_vit(training.model)) return schedule::unit_table(vit_config(training.model), options);
  if (is_gpt) return models::gpt::unit_table(small_config(training.model), options);
  const auto model = small_model(training, at::kFloat);
  return dynamic_cast<LinearStack&>(*model).table();
}

inline models::Batch batch_of(int64_t step, int64_t first, int64_t count, const std::string& model = "gpt2") {
  if (is_vit(model)) {
    config::Config config = vit_config(model);
    config.train.seed += static_cast<uint64_t>(step);
    return models::on_host(data::data_of_family(config).random_batch(config, data::consecutive_samples(first, count)));
  }
  const auto integers = at::TensorOptions().dtype(at::kLong);
  models::Batch batch{.samples = at::arange(first, first + count, integers),
                      .counts = {static_cast<double>(count * small_sequence)}};
  for (const char* name : {"tokens", "targets"}) batch.tensors[name] = at::empty({count, small_sequence}, integers);
  auto tokens = batch["tokens"].accessor<int64_t, 2>(), targets = batch["targets"].accessor<int64_t, 2>();
  for (int64_t sequence = 0; sequence < count; ++sequence) {
    for (int64_t place = 0; place < small_sequence; ++place) {
      const PhiloxBlock draw = philox_at({static_cast<uint32_t>(step), 7}, static_cast<uint64_t>(first + sequence),
                                         static_cast<uint64_t>(place));
      tokens[sequence][place] = draw[0] % small_vocabulary;
      targets[sequence][place] = draw[1] % small_vocabulary;
    }
  }
  return batch;
}

// The scales of the model's losses, for a step of all ranks together, or of each of so many copies that make it by
// themselves.
inline std::vector<double> gradient_scales(const Training& training, int64_t step, int64_t copies = 1) {
  const std::vector<double> counts = batch_of(step, 0, training.sequences / copies, training.model).counts;
  return models::gradient_scales(small_model(training, at::kFloat)->losses(), counts, 1.0);
}

inline config::LayoutConfig layout_config(const Layout& layout, bool deterministic) {
  std::vector<std::string> overrides;
  for (const std::string& key : layout.keys) {
    overrides.push_back("layout." + key);
    if (key.starts_with("recompute_layers")) overrides.emplace_back("train.recompute=full");
    if (key.starts_with("experts")) overrides.emplace_back("model.experts=12");
  }
  if (deterministic) overrides.push_back("layout.deterministic=true");
  return config::parse(
             "[model]\nlayers = 30\nwidth = 24\nheads = 24\nsequence = 24\nvocabulary = 24\nvocabulary_multiple = "
             "24\n[data]\ntrain = "
             "[\"x\"]\n[train]\nglobal_batch = 1\nsteps = 5040\n[optimizer]\nlearning_rate = 1.0\n[checkpoint]\n"
             "folder = \"x\"\n",
             "layout.toml", models::families(), overrides)
      .layout;
}

// The layout of the training's model on so many ranks of one machine.
inline schedule::ResolvedLayout small_layout(const Training& training, const config::LayoutConfig& layout,
                                             int64_t ranks) {
  schedule::ResolvedLayout resolved = schedule::resolved_layout(layout, small_table(training), ranks, ranks);
  if (layout.context == 1) return resolved;
  const bool windows = small_config(training.model).has_window();
  resolved.context = {.length = small_sequence, .ranks = layout.context, .striped = !windows};
  resolved.context_route = layout.context_route;
  return resolved;
}

// The keys of [optimizer] with the same names.
struct OuterRates {
  double outer_learning_rate = 0.7, outer_momentum = 0.9;
};

// The configuration that train::RankModel reads.
inline config::Config config_of(const Training& training, const config::LayoutConfig& layout,
                                const OuterRates& outer = {}) {
  config::Config config;
  config.layout = layout;
  config.optimizer = optimizer_config();
  config.optimizer.outer_learning_rate = outer.outer_learning_rate;
  config.optimizer.outer_momentum = outer.outer_momentum;
  config.train.seed = 5;
  config.train.recompute = training.recompute;
  return config;
}

// One rank's part of a training.
class RankTraining {
 public:
  RankTraining(const Training& training, const config::LayoutConfig& layout, comm::World& world,
               const OuterRates& outer = {})
      : training_(training),
        world_(world),
        model_(small_model(training, nn::scalar_type(training.precision), training.allocates_first, layout.context)),
        own_(model_, world, small_layout(training, layout, world.size()), config_of(training, layout, outer),
             poisoned(sharding_options(layout, at::kFloat))) {
    model_.set_first_unit(own_.cut.stage.segment(own_.cut.stage.segments(0).begin).units.begin);
  }

  void step(int64_t step, Outcome& outcome) {
    const int64_t share = training_.sequences / own_.cut.mesh.size("data"),
                  place = own_.cut.mesh.coordinate(world_.rank(), "data");
    const int64_t size = training_.micro_batch > 0 ? training_.micro_batch : share;
    std::vector<models::Batch> batches;
    for (int64_t done = 0; done < share; done += size) {
      batches.push_back(own_positions(batch_of(step, place * share + done, size, training_.model)));
    }
    const int64_t copies = own_.outer ? own_.cut.groups.replicas->size() : 1;
    models::Pass pass{.seed = 5,
                      .step = step,
                      .gradient_scales = gradient_scales(training_, step, copies),
                      .sample_scale = static_cast<double>(copies) / static_cast<double>(training_.sequences)};
    // A power of two keeps whole numbers exact.
    if (training_.model.ends_with("whole_stack")) pass.gradient_scales = {1.0};
    own_.cut.sharded.finish_update();
    for (comm::Comm* group : counted_groups()) group->reset_traffic();
    const c10::DebugInfoGuard metered(c10::DebugInfoKind::PROFILER_STATE, model_.new_meter());
    own_.step.run(batches, pass, learning_rate, [&](const train::StepSums& sums) {
      if (world_.rank() == 0) {
        for (const observe::TermSum& term : sums.losses) outcome.losses.push_back(term.values.front());
        outcome.norms.push_back(sums.gradients.norm);
        outcome.tallies.push_back(sums.tallies);
      }
      collect(outcome.gradients, [](const optim::AdamW::State& state) { return state.shard.gradient; });
      return optim::clip_multiplier(sums.gradients.norm, training_.clip);
    });
    own_.update_copies(5, step);
  }

  void finish(Outcome& outcome) {
    own_.cut.sharded.finish_update();
    collect(outcome.weights, [](const optim::AdamW::State& state) { return state.master; });
    collect(outcome.m, [](const optim::AdamW::State& state) { return state.m; });
    collect(outcome.v, [](const optim::AdamW::State& state) { return state.v; });
    const std::lock_guard lock(mutex());
    const auto rank = static_cast<size_t>(world_.rank()), ranks = static_cast<size_t>(world_.size());
    for (const nn::Buffer* buffer : own_.cut.stage.buffers()) outcome.buffers.emplace(buffer->name, buffer->value);
    outcome.bytes.resize(ranks);
    outcome.peak_bytes.resize(ranks);
    outcome.optimizer_bytes.resize(ranks);
    outcome.traffic.resize(ranks);
    outcome.alive.resize(ranks);
    outcome.alive[rank] = model_.alive();
    outcome.bytes[rank] = own_.cut.sharded.bytes();
    outcome.peak_bytes[rank] = own_.cut.sharded.peak_bytes();
    for (const optim::AdamW::State& state : own_.optimizer.states()) {
      const bool has_master = !state.master.is_same(state.shard.value);
      outcome.optimizer_bytes[rank] +=
          static_cast<int64_t>(state.m.nbytes() + state.v.nbytes() + (has_master ? state.master.nbytes() : 0));
    }
    for (const comm::Comm* group : counted_groups()) {
      for (int kind = 0; kind < comm::num_kinds; ++kind) {
        const comm::Traffic& traffic = group->traffic(static_cast<comm::Kind>(kind));
        if (traffic.calls > 0) outcome.traffic[rank][group->group().name][static_cast<comm::Kind>(kind)] = traffic;
      }
    }
  }

  DataGroups& groups() { return own_.cut.groups; }

 private:
  models::Batch own_positions(models::Batch batch) const {
    const ops::ContextCut* const context = own_.cut.context.cut();
    if (context == nullptr) return batch;
    for (auto& [name, tensor] : batch.tensors) tensor = ops::own_rows(tensor, *context);
    batch.counts.front() /= static_cast<double>(context->places.ranks);
    return batch;
  }

  std::vector<comm::Comm*> counted_groups() {
    std::vector<comm::Comm*> groups = own_.cut.groups.of_movements();
    groups.insert(groups.end(),
                  {own_.cut.groups.everyone.get(), own_.cut.groups.model_parallel.get(), &own_.cut.tensor.group(),
                   &own_.cut.tensor.sharing(), &own_.cut.stage.group(), &own_.cut.stage.sharing()});
    if (own_.cut.context.group() != nullptr) groups.push_back(own_.cut.context.group());
    if (own_.cut.experts.group() != nullptr) groups.push_back(own_.cut.experts.group());
    return groups;
  }

  static ShardingOptions poisoned(ShardingOptions options) {
    options.poison = true;
    return options;
  }

  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }

  // Puts the elements that this rank answers for into whole tensors.
  void collect(std::map<std::string, at::Tensor>& whole,
               const std::function<at::Tensor(const optim::AdamW::State&)>& tensor_of) {
    const std::lock_guard lock(mutex());
    place_own_elements(model_.parameters(), own_.optimizer, tensor_of, whole);
  }

  Training training_;
  comm::World& world_;
  MeteredModel model_;
  train::RankModel own_;
};

inline Outcome train(const Training& training, const Layout& layout, const OuterRates& outer = {}) {
  at::set_num_threads(1);
  Outcome outcome;
  const config::LayoutConfig config = layout_config(layout, training.deterministic);
  comm::run_threads(layout.ranks, {.timeout_seconds = 60, .check_calls = true}, [&](comm::World& world) {
    RankTraining rank(training, config, world, outer);
    for (int64_t done = 0; done < training.steps; ++done) rank.step(training.first_step + done, outcome);
    rank.finish(outcome);
  });
  return outcome;
}

}  // namespace terrace::parallel
