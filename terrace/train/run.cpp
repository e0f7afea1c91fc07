// Runs a training from a checked configuration to its last checkpoint, with ranks as threads or as processes.
#include "terrace/train/run.h"

#include <ATen/Parallel.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "terrace/base/control_groups.h"
#include "terrace/base/cores.h"
#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/file_lock.h"
#include "terrace/base/log.h"
#include "terrace/base/plural.h"
#include "terrace/base/units.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/config/family.h"
#include "terrace/config/names.h"
#include "terrace/config/phases.h"
#include "terrace/machine/machine.h"
#include "terrace/nn/precision.h"
#include "terrace/plan/memory_need.h"
#include "terrace/plan/planned_run.h"
#include "terrace/plan/rank_share.h"
#include "terrace/plan/route.h"
#include "terrace/schedule/description.h"
#include "terrace/train/agreement.h"
#include "terrace/train/check_start.h"
#include "terrace/train/check_tensors.h"
#include "terrace/train/device.h"
#include "terrace/train/hooks/hooks.h"
#include "terrace/train/kernel_record.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/report_request.h"
#include "terrace/train/resumed_checkpoint.h"
#include "terrace/train/shared_folder.h"
#include "terrace/train/start_facts.h"

namespace terrace::train {
namespace {

namespace fs = std::filesystem;

// A launcher may bind each rank to a few cores although the machine has more.
void warn_of_bound_ranks(const comm::World& world) {
  const auto given = static_cast<int64_t>(core_mask_unbound().count());
  const double quota = core_quota();
  const int64_t cores = quota > 0 ? std::min(given, static_cast<int64_t>(std::ceil(quota))) : given;
  const int64_t possible = cores / world.ranks_per_node(), bound = world.cores_per_rank();
  if (world.rank() != 0 || bound >= possible) return;
  log_warning(
      "the launcher binds each rank to {}, but each of {} ranks could have {} of this machine's {}; start with "
      "'mpirun --bind-to none' or 'srun --cpus-per-task={} --cpu-bind=none' (docs/mesh.md)",
      counted(bound, "core"), world.ranks_per_node(), possible, cores, possible);
}

// The number of threads of each rank. A resumed run keeps its number, so that it continues bit for bit, unless the
// configuration gives a number or the number of ranks has changed.
int64_t threads_of(const config::Config& config, const checkpoint::Reader* resumed, int64_t ranks,
                   const comm::World* launched = nullptr) {
  const int64_t share = launched ? launched->cores_per_rank() : std::max<int64_t>(1, choose_threads(0) / ranks);
  if (launched) warn_of_bound_ranks(*launched);
  if (config.train.threads > 0) return config.train.threads;
  if (resumed == nullptr) return share;
  const Json& kernels = resumed->trainer().at("kernels");
  if (kernels.value("ranks", int64_t{1}) != ranks) return share;
  const auto threads = kernels.at("threads").get<int64_t>();
  if (threads > share && (launched == nullptr || launched->rank() == 0)) {
    log_warning(
        "the run had {} a rank and continues with as many, though a rank has {} here; train.threads = "
        "{} is faster here, but does not continue bit for bit",
        counted(threads, "thread"), counted(share, "core"), share);
  }
  return threads;
}

Json figures_json(const config::Config& config) {
  Json list = Json::array();
  for (const observe::Figure& figure : observe::figures_of(config).list(config)) {
    list.push_back({{"name", figure.name}, {"unit", figure.unit}, {"better", observe::name_of(figure.better)}});
  }
  return list;
}

void write_run_facts(Trainer& trainer) {
  const config::Config& config = trainer.config();
  Json baselines = Json::array();
  for (const data::Baseline& baseline : trainer.data().baselines()) {
    baselines.push_back({{"key", baseline.key}, {"name", baseline.name}, {"loss", baseline.loss}});
  }
  Json facts = {{"parameters", nn::whole_elements(trainer.model().parameters())},
                {"precision", std::string(config::name_of(config.train.precision))},
                {"global_batch", config.train.global_batch},
                {"steps", config.train.steps},
                {"peak_flops_per_second", trainer.peak().flops_per_second},
                {"peak_name", trainer.peak().name},
                {"loss_unit", observe::figures_of(config).loss_unit(config)},
                {"figures", figures_json(config)},
                {"baselines", baselines},
                {"kernels", trainer.kernels()}};
  for (size_t phase = 1; phase <= config.phases.size(); ++phase) {
    facts["phases"].push_back(
        {{"from_step", config.phases[phase - 1].from_step}, {"changes", config::phase_changes_text(config, phase)}});
  }
  const fs::path folder = config.checkpoint.folder;
  write_text_atomically(folder / "run.json", facts.dump(2) + "\n");
  write_text_atomically(folder / checkpoint::run_config_name, config::dump(config));
  log_info("every key of the configuration: {}", (folder / checkpoint::run_config_name).string());
}

// Restores the whole state from `resumed`, or only the weights from train.initial_weights, if either is given.
void restore_state(Trainer& trainer, const checkpoint::Reader* resumed) {
  const std::string& initial_weights = trainer.config().train.initial_weights;
  if (resumed != nullptr) {
    trainer.resume(*resumed);
    if (trainer.rank() == 0) log_info("continues from {}", resumed->path().string());
  } else if (!initial_weights.empty()) {
    trainer.take_initial_weights(checkpoint::Reader(checkpoint::resolve(initial_weights)));
    if (trainer.rank() == 0) log_info("starts from the weights of {}; nothing else is taken from it", initial_weights);
  }
}

// What all ranks of a run share.
struct Start {
  const config::Config& config;
  const RunOptions& options;
  const checkpoint::Reader* resumed;
  plan::MemoryNeed need;     // on the first rank only
  plan::MemoryNeed largest;  // of one rank; on the first rank only
  Peak peak;
  ops::KernelChoice kernels;
  profile::RankThreads* threads = nullptr;  // if ranks are threads
};

// What the family calls so many samples: "sequence" if it is one.
std::string samples_text(const config::Family& family, int64_t count) {
  return count == 1 && family.samples.ends_with('s') ? family.samples.substr(0, family.samples.size() - 1)
                                                     : family.samples;
}

void log_run_settings(Trainer& trainer, const Start& start) {
  const Peak& peak = start.peak;
  const plan::MemoryNeed& need = start.need;
  const int threads = at::get_num_threads();
  const int64_t micro_batch = plan::micro_batch_of(trainer.config(), trainer.mesh().size("data"));
  log_info("{} parameters, {}, micro-batches of {} {}{}",
           format_count(nn::whole_elements(trainer.model().parameters())), counted(threads, "thread"), micro_batch,
           samples_text(*trainer.config().family, micro_batch),
           peak.known() ? fmt::format("; {}: {}", peak.name, format_flops(peak.flops_per_second)) : "");
  log_info("memory{}: {} for {}, {} for activations{}",
           need.ranks > 1 ? fmt::format(" of {} ranks together", need.ranks) : "",
           format_bytes(need.states + need.copies), need.states_text(), format_bytes(need.activations),
           need.ranks > 1 ? fmt::format("; {} for the largest rank", format_bytes(start.largest.all())) : "");
  if (trainer.mesh().size() == 1) return;
  const mesh::ShardSizes sizes = mesh::shard_sizes(trainer.config().layout, trainer.mesh());
  log_info("{} ranks with {} each:\n{}", trainer.mesh().size(), counted(threads, "thread"),
           mesh::overview(trainer.mesh(), parallel::shown_groups(trainer.mesh(), sizes)));
}

// One rank of a run, from its first step to its last.
RunResult run_trainer(Trainer& trainer, const Start& start, comm::World& world, Measuring measuring) {
  const bool is_reporting_rank = world.rank() == 0;
  if (is_reporting_rank) log_run_settings(trainer, start);
  restore_state(trainer, start.resumed);
  trainer.saving_group().barrier({.what = "load checkpoint"}).wait();  // the saving group waits without a time limit
  if (is_reporting_rank) write_run_facts(trainer);
  add_standard_hooks(trainer, start.options.began);
  trainer.add_hook(make_measure_hook(trainer, std::move(measuring)));
  if (start.options.profile_steps > 0) {
    trainer.add_hook(
        make_profile_hook(trainer, start.options.profile_steps, start.options.report_profile, start.threads));
  }
  if (start.options.stop_after > 0) trainer.add_hook(make_stop_after_hook(start.options.stop_after));
  if (start.options.prepare) start.options.prepare(trainer);
  const bool had_all_steps = trainer.all_steps_done();
  trainer.run();
  if (had_all_steps && is_reporting_rank) {
    log_info("the run had made all its steps up to {}: there is nothing to do; raise train.steps to train on",
             start.config.train.steps);
  }
  // The name is computed, since this machine may not see the checkpoint of another rank's machine yet.
  return {.checkpoint = fs::path(start.config.checkpoint.folder) / checkpoint::step_name(trainer.steps_done()),
          .step = trainer.steps_done(),
          .finished = trainer.finished(),
          .stop_reason = trainer.finished()              ? ""
                         : trainer.stop_reason().empty() ? "on request"
                                                         : trainer.stop_reason()};
}

// The machine that a prediction of the run's steps is for, if the configuration asks for one.
std::optional<machine::Machine> predicted_machine(const Start& start, const at::Device& device, comm::World& world) {
  const std::string& name = start.config.observe.machine;
  if (name.empty()) return std::nullopt;
  if (name != measured_machine) return machine::load(name);
  if (!start.options.measure_machine) return std::nullopt;
  return start.options.measure_machine(world, device, nn::scalar_type(start.config.train.precision));
}

// Warns of the keys that the chosen route leaves without effect and that had one by the other route.
void warn_of_keys_idle_by_route(const config::Config& chosen, const Start& start, const comm::World& world) {
  std::vector<std::string> idle = idle_keys_of(chosen, world.size(), world.ranks_per_node());
  const std::vector<std::string> known = idle_keys_of(start.config, world.size(), world.ranks_per_node());
  std::erase_if(idle, [&](const std::string& text) { return std::ranges::find(known, text) != known.end(); });
  warn_of_idle_keys(idle);
}

// Chooses the route of movements and how rails gather weights: what is predicted to be faster on the first rank's
// machine, for all ranks.
void choose_route(config::Config& config, const Start& start, const std::optional<machine::Machine>& machine,
                  comm::World& world) {
  config::LayoutConfig& layout = config.layout;
  const bool is_given =
      layout.route != config::Routing::automatic && layout.rails_gather != config::RailsGather::automatic;
  if (is_given || !machine) return;
  std::array<int64_t, 2> chosen = {};
  if (world.rank() == 0) {
    plan::PlannedRun run(start.config, world.size(), world.ranks_per_node());
    run.take_route(plan::chosen_route(run, *machine));
    chosen = {static_cast<int64_t>(run.config.layout.route),
              static_cast<int64_t>(plan::chosen_rails_gather(run, *machine))};
  }
  world.connect(mesh::all_ranks("route", world.size()))
      ->broadcast(chosen.data(), std::ssize(chosen), comm::Type::int64, 0, {.what = "route"})
      .wait();
  layout.route = static_cast<config::Routing>(chosen[0]);
  layout.rails_gather = static_cast<config::RailsGather>(chosen[1]);
  if (world.rank() == 0) warn_of_keys_idle_by_route(config, start, world);
}

RunResult run_rank(const Start& start, const at::Device& device, comm::World& world) {
  std::optional<machine::Machine> machine =
      abort_on_error(world, [&] { return predicted_machine(start, device, world); });
  // It counts the rank's tensors from the first one until the measured steps are over.
  const auto meter = std::make_shared<ops::MemoryMeter>(device.type());
  auto metered = std::make_unique<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE, meter);
  config::Config config = start.config;
  abort_on_error(world, [&] { choose_route(config, start, machine, world); });
  Trainer trainer(config, start.peak, start.kernels, &world);
  return abort_on_error(world, [&] {
    return run_trainer(trainer, start, world,
                       {.meter = meter, .end = [&] { metered.reset(); }, .machine = std::move(machine)});
  });
}

// Checks made once for all ranks before anything is built. Keeps the run's folder locked while it lives.
struct StartChecks {
  StartChecks(const config::Config& config, const RunOptions& options, int64_t ranks, int64_t ranks_here,
              const at::Device& device) {
    const std::string& folder = config.checkpoint.folder;
    check_kept_folder(options.config_file, folder);
    plan::check_ranks(config, ranks, ranks_here);
    warn_of_idle_keys(idle_keys_of(config, ranks, ranks_here));
    const bool is_new = is_new_run(options.resume, folder);
    check_files(config, is_new);
    if (is_new) check_initial_weights(config, Depth::manifest);
    check_machine(config, ranks);
    need = check_memory(config, ranks, ranks_here, device);
    largest = plan::least_memory(config, ranks, ranks_here, 1);
    make_run_folder(folder);
    lock.emplace(
        fs::path(folder) / ".run.lock",
        fmt::format("another process trains in {}; wait until it ends, or name another checkpoint.folder", folder));
    resumed = open_resumed(options, folder);
    if (resumed) check_resumed_config(config, *resumed);
    const int64_t steps_done = resumed == nullptr ? 0 : resumed->step();
    check_profile(config, options.profile_steps, steps_done);
    check_stop_after(config, options.stop_after, steps_done);
  }

  plan::MemoryNeed need, largest;
  std::optional<FileLock> lock;
  std::unique_ptr<checkpoint::Reader> resumed;
};

// The peak that the resumed run had, if it computed on as many threads and ranks of the same processor; else an unknown
// one. A run never changes its precision.
Peak recorded_peak(const Start& start, int64_t threads, int64_t ranks, const at::Device& device) {
  if (start.resumed == nullptr) return {};
  const std::filesystem::path path = start.resumed->path().parent_path() / "run.json";
  const Json facts = std::filesystem::exists(path) ? parse_json_or_discard(read_text(path)) : Json();
  if (!facts.is_object()) return {};
  const Json now = kernel_record(
      {.threads = threads, .ranks = ranks, .device = device, .type = nn::scalar_type(start.config.train.precision)});
  const Json then = facts.value("kernels", Json::object());
  for (const char* key : {"threads", "ranks", "device", "processor"}) {
    if (then.value(key, Json()) != now.at(key)) return {};
  }
  if (!facts.value("peak_name", Json()).is_string() || !facts.value("peak_flops_per_second", Json()).is_number())
    return {};
  return {facts["peak_flops_per_second"].get<double>(), facts["peak_name"].get<std::string>()};
}

// Measures the peak with all threads that the ranks of this process will have together.
Peak measured_peak(const Start& start, int64_t threads, int64_t ranks, const at::Device& device) {
  prepare_machine(std::min(std::max(choose_threads(0), threads), threads * ranks));
  Peak peak;
  const auto& measure = start.options.measure_peak;
  if (measure) peak = measure(device, nn::scalar_type(start.config.train.precision));
  prepare_machine(threads);
  return peak;
}

// The recorded peak, or the measured one if there is none.
Peak peak_of(const Start& start, int64_t threads, const at::Device& device) {
  const int64_t ranks = start.options.ranks;
  const Peak recorded = recorded_peak(start, threads, ranks, device);
  if (!recorded.known()) return measured_peak(start, threads, ranks, device);
  prepare_machine(threads);
  return recorded;
}

// The first rank's recorded peak, or the sum of those that all ranks measure, if there is none.
Peak agreed_peak(const Start& start, int64_t threads, const at::Device& device, comm::Comm& all) {
  const Json recorded = Json::parse(broadcast_result(all, [&] {
    const Peak peak = recorded_peak(start, threads, all.size(), device);
    return Json{{"rate", peak.flops_per_second}, {"name", peak.name}}.dump();
  }));
  Peak peak{recorded.at("rate").get<double>(), recorded.at("name").get<std::string>()};
  if (peak.known()) {
    prepare_machine(threads);
    return peak;
  }
  peak = measured_peak(start, threads, 1, device);
  all.all_reduce(&peak.flops_per_second, 1, comm::Type::fp64, {.what = "peak"}).wait();
  return peak;
}

// The classes of the model's matrices. Smaller ones than 256 by 256 take so little time that their kernels need not be
// chosen by measurements.
std::set<ops::WeightClass> weight_classes_of(const config::Config& config) {
  constexpr int64_t least_elements = 256 * 256;
  std::set<ops::WeightClass> classes;
  for (const schedule::UnitRow& row : schedule::unit_table(config)) {
    for (const schedule::UnitParameter& parameter : row.parameters) {
      const std::vector<int64_t>& shape = parameter.mark.global_shape;
      if (shape.size() > 1 && c10::multiply_integers(shape) >= least_elements) {
        classes.insert(ops::weight_class_of(shape));
      }
    }
  }
  return classes;
}

ops::ProductsByClass choose_products(const Start& start, const at::Device& device) {
  const auto& choose = start.options.choose_products;
  if (!choose) return {};
  return choose(device, nn::scalar_type(start.config.train.precision), weight_classes_of(start.config));
}

// The first rank's choice, on every rank.
ops::ProductsByClass agree_on_products(const Start& start, const at::Device& device, comm::Comm& all) {
  const std::string record = broadcast_result(all, [&] {
    return kernel_record({.device = device,
                          .type = nn::scalar_type(start.config.train.precision),
                          .choice = {.products = choose_products(start, device)}})
        .dump();
  });
  return recorded_choice(Json::parse(record)).products;
}

// A resumed run keeps the kernels that it began with.
ops::KernelChoice kernels_of(const Start& start, const std::function<ops::ProductsByClass()>& choose) {
  if (start.resumed != nullptr) return recorded_choice(start.resumed->trainer().at("kernels"));
  return {.products = choose()};
}

RunResult run_as_threads(const config::Config& config, const RunOptions& options) {
  const at::Device device = choose_device(config.train.device);
  const StartChecks checks(config, options, options.ranks, options.ranks, device);
  Start start{.config = config,
              .options = options,
              .resumed = checks.resumed.get(),
              .need = checks.need,
              .largest = checks.largest,
              .peak = {},
              .kernels = {}};
  start.peak = peak_of(start, threads_of(config, start.resumed, options.ranks), device);
  start.kernels = kernels_of(start, [&] { return choose_products(start, device); });
  RunResult result;
  profile::RankThreads threads;
  start.threads = &threads;
  end_idle_threads();
  // A thread that ended with the Refusal would make all ranks write their last calls, which nobody needs then.
  std::mutex mutex;
  std::optional<Refusal> refusal;
  comm::run_threads(options.ranks, world_options(config), [&](comm::World& own) {
    threads.add(own.rank());
    try {
      RunResult of_rank = run_rank(start, device, own);
      if (own.rank() == 0) result = std::move(of_rank);
    } catch (const Refusal& all_know) {
      const std::lock_guard lock(mutex);
      if (!refusal || *all_know.what() != '\0') refusal = all_know;
    }
  });
  if (refusal) throw Refusal(*refusal);
  return result;
}

RunResult run_as_process(const config::Config& config, const RunOptions& options, comm::World& world) {
  const auto all = world.connect(mesh::all_ranks("control", world.size()));
  check_same(*all, start_facts(config, options));
  const at::Device device = choose_device(config.train.device, world);
  bind_near(device);
  const bool first = world.rank() == 0;
  std::optional<StartChecks> checks;
  const std::string checkpoint = broadcast_result(*all, [&]() -> std::string {
    checks.emplace(config, options, world.size(), world.ranks_per_node(), device);
    return checks->resumed ? checks->resumed->path().string() : "";
  });
  check_shared_folder(*all, config.checkpoint.folder);
  std::unique_ptr<checkpoint::Reader> own;
  if (checkpoint.empty()) {
    check_same(*all, initial_weights_facts(config));
  } else {
    own = open_chosen(world, *all, checkpoint, options);
  }
  Start start{.config = config,
              .options = options,
              .resumed = first ? checks->resumed.get() : own.get(),
              .need = first ? checks->need : plan::MemoryNeed{},
              .largest = first ? checks->largest : plan::MemoryNeed{},
              .peak = {},
              .kernels = {}};
  const int64_t threads = threads_of(config, start.resumed, world.size(), &world);
  start.peak = agreed_peak(start, threads, device, *all);
  start.kernels = kernels_of(start, [&] { return agree_on_products(start, device, *all); });
  return run_rank(start, device, world);
}

}  // namespace

comm::WorldOptions world_options(const config::Config& config) {
  return {
      .timeout_seconds = config.layout.timeout > 0 ? config.layout.timeout : std::numeric_limits<double>::infinity(),
      .rank_order = config.layout.deterministic,
      .check_calls = config.layout.check_calls,
      .share_gpus = config.layout.share_gpus,
      .flight_folder = config.checkpoint.folder,
      .report_requests = &report_requests()};
}

RunResult run(const config::Config& config, const RunOptions& options) {
  try {
    if (!options.world) return run_as_threads(config, options);
    return abort_on_error(*options.world, [&] { return run_as_process(config, options, *options.world); });
  } catch (const comm::CommError& error) {
    const std::optional<fs::path> newest = checkpoint::newest(config.checkpoint.folder);
    throw comm::CommError(fmt::format("{}. {}", error.what(),
                                      newest ? fmt::format("Continue from {} with --resume auto", newest->string())
                                             : "There is no checkpoint yet to continue from"));
  }
}

}  // namespace terrace::train
