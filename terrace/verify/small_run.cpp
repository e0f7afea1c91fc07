// Runs the trainer's steps without data files, hooks and checkpoints, and keeps the tensors of each step.
#include "terrace/verify/small_run.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "terrace/comm/threads/threads.h"
#include "terrace/data/data_of_family.h"
#include "terrace/models/families.h"
#include "terrace/nn/precision.h"
#include "terrace/optim/adamw.h"
#include "terrace/optim/gradient_norm.h"
#include "terrace/parallel/cut_model.h"
#include "terrace/parallel/states.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/schedule/resolved_layout.h"
#include "terrace/train/device.h"
#include "terrace/train/rank_model.h"
#include "terrace/train/world_options.h"
#include "terrace/verify/deterministic_kernels.h"
#include "terrace/verify/gather.h"

namespace terrace::verify {
namespace {

// `first` is the sample's number in the whole run. With `context` the positions of one rank.
models::Batch random_batch(const config::Config& config, int64_t first, int64_t count, const at::Device& device,
                           const ops::ContextCut* context = nullptr) {
  const data::DataOfFamily& of_family = data::data_of_family(config);
  data::MicroBatch batch = of_family.random_batch(config, data::consecutive_samples(first, count));
  if (context != nullptr) of_family.cut_positions(batch, context->places, context->ranks->member());
  return models::to_device(models::on_host(std::move(batch)), device);
}

double loss_scale(const config::TrainConfig& train) {
  return train.precision == config::Precision::fp16 ? train.initial_loss_scale : 1.0;
}

// The count of each loss of the model: the number of things over which the loss is summed in the step.
std::vector<double> step_counts(const config::Config& config, int64_t step) {
  const data::MicroBatch batch = data::data_of_family(config).random_batch(
      config, data::consecutive_samples((step - 1) * config.train.global_batch, config.train.global_batch));
  std::vector<double> counts;
  for (const double count : batch.counts) counts.push_back(models::divisor_of(count));
  return counts;
}

// `counts` are the step_counts() of the step.
models::Pass pass_of(const config::Config& config, const models::Model& model, const std::vector<double>& counts,
                     int64_t step, double scale) {
  return {.seed = config.train.seed,
          .step = step,
          .gradient_scales = models::gradient_scales(model.losses(), counts, scale),
          .sample_scale = scale / static_cast<double>(config.train.global_batch)};
}

parallel::ShardingOptions poisoned_options(const config::Config& config) {
  auto options = parallel::sharding_options(config.layout, nn::scalar_type(config.train.gradient_type));
  options.poison = true;
  return options;
}

schedule::ResolvedLayout layout_of(const config::Config& config, const RunRanks& ranks, const comm::World& world) {
  if (!ranks.partition)
    return schedule::resolved_layout(config, schedule::unit_table(config), world.size(), world.ranks_per_node());
  schedule::ResolvedLayout resolved(
      config.layout, schedule::mesh_of(config.layout, world.size(), world.ranks_per_node()), ranks.partition);
  resolved.cut_positions(config);
  return resolved;
}

class RankTraining {
 public:
  RankTraining(const config::Config& config, const schedule::ResolvedLayout& layout, comm::World& world, SmallRun& run,
               std::mutex& mutex)
      : config_(config),
        world_(world),
        run_(run),
        mutex_(mutex),
        device_(train::take_device(config.train.device == "cuda" ? "cuda" : "cpu", world)),
        model_(models::build_model(config, {.device = device_,
                                            .type = nn::scalar_type(config.train.precision),
                                            .allocate = false,
                                            .context_ranks = config.layout.context}),
               layout.partition()),
        own_(model_, world, layout, config, poisoned_options(config)) {
    use_deterministic_kernels(device_);
  }

  void run() {
    for (int64_t step = 1; step <= config_.train.steps; ++step) take_step(step);
    // A last forward shows whether the weights of the last update arrived.
    model_.begin_step(config_.train.steps + 1);
    own_.step.evaluate(random_batch(config_, 0, 1, device_, own_.cut.context.cut()));
    const std::lock_guard lock(mutex_);
    run_.digest_logs[static_cast<size_t>(world_.rank())] = model_.digest_log();
  }

 private:
  void take_step(int64_t step) {
    const config::TrainConfig& train = config_.train;
    const int64_t share = train.global_batch / own_.cut.mesh.size("data");
    const int64_t first = (step - 1) * train.global_batch + own_.cut.mesh.coordinate(world_.rank(), "data") * share;
    std::vector<models::Batch> batches;
    for (int64_t done = 0; done < share; done += train.micro_batch) {
      batches.push_back(random_batch(config_, first + done, train.micro_batch, device_, own_.cut.context.cut()));
    }
    model_.begin_step(step);
    const std::vector<double> counts = step_counts(config_, step);
    own_.step.run(batches, pass_of(config_, model_, counts, step, run_.loss_scale), config_.optimizer.learning_rate,
                  [&](const train::StepSums& sums) { return note_gradients(step, sums, counts); });
    StepState& whole = run_.steps[static_cast<size_t>(step - 1)];
    using State = optim::AdamW::State;
    collect(whole.tensors[1], [](const State& state) { return state.master; });
    collect(whole.tensors[2], [](const State& state) { return state.m; });
    collect(whole.tensors[3], [](const State& state) { return state.v; });
  }

  // Returns the number by which the optimizer multiplies the gradients.
  double note_gradients(int64_t step, const train::StepSums& sums, const std::vector<double>& counts) {
    const double scale = run_.loss_scale, norm = sums.gradients.norm / scale;
    StepState& whole = run_.steps[static_cast<size_t>(step - 1)];
    if (world_.rank() == 0) {
      observe::TermSums terms = sums.losses;
      models::set_counts(counts, terms);
      whole.loss = models::weighted_mean(model_.losses(), terms);
      whole.norm = norm;
    }
    note_losses(whole.micro_batch_losses);
    collect(whole.tensors[0], [](const optim::AdamW::State& state) { return state.shard.gradient; });
    return optim::clip_multiplier(norm, config_.optimizer.clip) / scale;
  }

  // Every rank makes room for the losses of all, but one rank a data-parallel place writes them: of ranks that are
  // processes they are summed.
  void note_losses(std::vector<double>& whole) {
    const std::vector<double>& own = model_.micro_batch_losses();
    const int64_t rank = world_.rank(), place = own_.cut.mesh.coordinate(rank, "data");
    const std::lock_guard lock(mutex_);
    whole.resize(static_cast<size_t>(config_.train.global_batch / config_.train.micro_batch));
    if (!own_.cut.stage.has_last() || own_.cut.mesh.coordinate(rank, "tensor") != 0) return;
    // Context ranks have the losses of their positions of the same samples.
    const auto first = whole.begin() + place * static_cast<int64_t>(own.size());
    std::transform(own.begin(), own.end(), first, first, std::plus<>());
  }

  // Writes the elements that this rank owns into whole tensors.
  void collect(std::map<std::string, at::Tensor>& whole,
               const std::function<at::Tensor(const optim::AdamW::State&)>& tensor_of) {
    const std::lock_guard lock(mutex_);
    parallel::place_own_elements(model_.parameters(), own_.optimizer, tensor_of, whole);
  }

  const config::Config& config_;
  comm::World& world_;
  SmallRun& run_;
  std::mutex& mutex_;  // of the run
  at::Device device_;
  DigestLoggingModel model_;
  train::RankModel own_;
};

// One parameter in double precision and its AdamW state.
struct ExactState {
  nn::Parameter* parameter;
  at::Tensor m, v;

  void update(const config::OptimizerConfig& config, const at::Tensor& gradient, int64_t step) const {
    const double decay = parameter->decay ? config.weight_decay : 0.0;
    const auto count = static_cast<double>(step);
    m.mul_(config.beta1).add_(gradient, 1 - config.beta1);
    v.mul_(config.beta2).addcmul_(gradient, gradient, 1 - config.beta2);
    const at::Tensor denominator = v.div(1 - std::pow(config.beta2, count)).sqrt_().add_(config.epsilon);
    parameter->value.mul_(1 - config.learning_rate * decay)
        .addcdiv_(m, denominator, -config.learning_rate / (1 - std::pow(config.beta1, count)));
  }
};

double exact_norm(const std::vector<nn::Parameter*>& parameters) {
  double sum = 0;
  for (const nn::Parameter* parameter : parameters) sum += parameter->gradient.square().sum().item<double>();
  return std::sqrt(sum);
}

// The losses of the step's micro-batches; also accumulates their gradients.
std::vector<double> exact_losses(const config::Config& config, models::Model& model, int64_t step) {
  models::Pass pass = pass_of(config, model, step_counts(config, step), step, 1.0);
  pass.training = true;
  std::vector<double> losses;
  for (int64_t done = 0; done < config.train.global_batch; done += config.train.micro_batch) {
    const models::Batch batch =
        random_batch(config, (step - 1) * config.train.global_batch + done, config.train.micro_batch, at::kCPU);
    const int64_t head = model.num_units() - 1;
    const models::Tensors terms = model.loss(head, model.forward(0, head, {}, batch, pass), batch, pass);
    at::Tensor sum;  // of the terms that are trained on
    for (size_t term = 0; term < terms.size(); ++term) {
      if (model.losses()[term].weight != 0) sum = sum.defined() ? sum.add(terms[term]) : terms[term];
    }
    sum.backward();
    losses.push_back(sum.item<double>());
  }
  nn::collect_autograd_gradients(model.parameters());
  return losses;
}

}  // namespace

SmallRun train_small(const config::Config& config, const RunRanks& ranks, const WorldDecorator& decorate) {
  SmallRun run{.steps = std::vector<StepState>(static_cast<size_t>(config.train.steps)),
               .digest_logs = std::vector<DigestLog>(static_cast<size_t>(ranks.number)),
               .loss_scale = loss_scale(config.train)};
  std::mutex mutex;
  comm::WorldOptions options = train::world_options(config);
  options.check_calls = true;
  options.flight_folder.clear();  // nothing is written
  const auto run_rank = [&](comm::World& plain) {
    const std::unique_ptr<comm::World> decorated = decorate ? decorate(plain) : nullptr;
    RankTraining(config, layout_of(config, ranks, plain), decorated ? *decorated : plain, run, mutex).run();
  };
  if (!ranks.processes) {
    comm::run_threads(ranks.number, options, run_rank);
    return run;
  }
  const auto world = comm::make_mpi_world(ranks.processes, options);
  run_rank(*world);
  const auto all = world->connect(schedule::mesh_of({}, world->size(), world->ranks_per_node()).group(0, "data"));
  gather_run(run, *all);
  return run;
}

SmallRun train_exactly(const config::Config& config) {
  SmallRun run{.steps = std::vector<StepState>(static_cast<size_t>(config.train.steps)), .digest_logs = {}};
  const auto model = models::build_model(config, {.type = at::kDouble});
  const std::vector<nn::Parameter*> parameters = model->parameters();
  std::vector<ExactState> states;
  {
    const at::NoGradGuard no_grad;
    for (nn::Parameter* parameter : parameters) {
      parameter->value.copy_(nn::initial_value(*parameter, config.train.seed, at::kFloat));
      states.push_back({parameter, at::zeros_like(parameter->value), at::zeros_like(parameter->value)});
    }
  }
  nn::initialize(model->buffers(), config.train.seed);
  nn::allocate_gradients(parameters, at::kDouble);
  for (int64_t step = 1; step <= config.train.steps; ++step) {
    StepState& whole = run.steps[static_cast<size_t>(step - 1)];
    nn::zero_gradients(parameters);
    whole.micro_batch_losses = exact_losses(config, *model, step);
    const at::NoGradGuard no_grad;
    whole.norm = exact_norm(parameters);
    const double multiplier = optim::clip_multiplier(whole.norm, config.optimizer.clip);
    for (const ExactState& state : states) {
      const nn::Parameter& parameter = *state.parameter;
      whole.tensors[0][parameter.name] = parameter.gradient.clone();
      state.update(config.optimizer, parameter.gradient.mul(multiplier), step);
      whole.tensors[1][parameter.name] = parameter.value.detach().clone();
      whole.tensors[2][parameter.name] = state.m.clone();
      whole.tensors[3][parameter.name] = state.v.clone();
    }
  }
  return run;
}

}  // namespace terrace::verify
