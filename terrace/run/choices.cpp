// Chooses threads, peak, kernels and route of a run; a resumed run keeps what decides its last bits.
#include "terrace/run/choices.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/base/system/control_groups.h"
#include "terrace/base/system/cores.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/machine/software.h"
#include "terrace/nn/precision.h"
#include "terrace/plan/planned_run.h"
#include "terrace/plan/time/route.h"
#include "terrace/run/single_checks.h"
#include "terrace/schedule/description.h"
#include "terrace/train/agreement.h"
#include "terrace/train/kernel_record.h"
#include "terrace/train/prepare_machine.h"

namespace terrace::run {
namespace {

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

// The peak that the resumed run had, if it computed on as many threads and ranks of the same processor; else an unknown
// one. A run never changes its precision.
train::Peak recorded_peak(const RunInputs& inputs, int64_t threads, int64_t ranks, const at::Device& device) {
  if (inputs.resumed == nullptr) return {};
  const std::filesystem::path path = inputs.resumed->path().parent_path() / "run.json";
  const Json facts = std::filesystem::exists(path) ? parse_json_or_discard(read_text(path)) : Json();
  if (!facts.is_object()) return {};
  const Json now = train::kernel_record(
      {.threads = threads, .ranks = ranks, .device = device, .type = nn::scalar_type(inputs.config.train.precision)});
  const Json then = facts.value("kernels", Json::object());
  for (const char* key : {"threads", "ranks", "device", "processor"}) {
    if (then.value(key, Json()) != now.at(key)) return {};
  }
  if (!facts.value("peak_name", Json()).is_string() || !facts.value("peak_flops_per_second", Json()).is_number())
    return {};
  return {facts["peak_flops_per_second"].get<double>(), facts["peak_name"].get<std::string>()};
}

// Measures the peak with all threads that the ranks of this process will have together.
train::Peak measured_peak(const RunInputs& inputs, int64_t threads, int64_t ranks, const at::Device& device) {
  train::prepare_machine(std::min(std::max(train::choose_threads(0), threads), threads * ranks));
  train::Peak peak;
  const auto& measure = inputs.options.measure_peak;
  if (measure) peak = measure(device, nn::scalar_type(inputs.config.train.precision));
  train::prepare_machine(threads);
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

ops::ProductsByClass chosen_products(const RunInputs& inputs, const at::Device& device) {
  const auto& choose = inputs.options.choose_products;
  if (!choose) return {};
  return choose(device, nn::scalar_type(inputs.config.train.precision), weight_classes_of(inputs.config));
}

// Warns of the keys that the chosen route leaves without effect and that had one by the other route.
void warn_of_keys_idle_by_route(const config::Config& chosen, const config::Config& given, const comm::World& world) {
  std::vector<std::string> idle = idle_keys_of(chosen, world.size(), world.ranks_per_node());
  const std::vector<std::string> known = idle_keys_of(given, world.size(), world.ranks_per_node());
  std::erase_if(idle, [&](const std::string& text) { return std::ranges::find(known, text) != known.end(); });
  warn_of_idle_keys(idle);
}

}  // namespace

int64_t threads_of_rank(const RunInputs& inputs, int64_t ranks, const comm::World* launched) {
  const int64_t share = launched ? launched->cores_per_rank() : std::max<int64_t>(1, train::choose_threads(0) / ranks);
  if (launched) warn_of_bound_ranks(*launched);
  if (inputs.config.train.threads > 0) return inputs.config.train.threads;
  if (inputs.resumed == nullptr) return share;
  const Json& kernels = inputs.resumed->trainer().at("kernels");
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

train::Peak choose_peak(const RunInputs& inputs, int64_t threads, const at::Device& device) {
  const int64_t ranks = inputs.options.ranks;
  const train::Peak recorded = recorded_peak(inputs, threads, ranks, device);
  if (!recorded.known()) return measured_peak(inputs, threads, ranks, device);
  train::prepare_machine(threads);
  return recorded;
}

train::Peak choose_peak(const RunInputs& inputs, int64_t threads, const at::Device& device, comm::Comm& all) {
  const Json recorded = Json::parse(train::broadcast_result(all, [&] {
    const train::Peak peak = recorded_peak(inputs, threads, all.size(), device);
    return Json{{"rate", peak.flops_per_second}, {"name", peak.name}}.dump();
  }));
  train::Peak peak{recorded.at("rate").get<double>(), recorded.at("name").get<std::string>()};
  if (peak.known()) {
    train::prepare_machine(threads);
    return peak;
  }
  peak = measured_peak(inputs, threads, 1, device);
  all.all_reduce(&peak.flops_per_second, 1, comm::Type::fp64, {.what = "peak"}).wait();
  return peak;
}

ops::KernelChoice choose_kernels(const RunInputs& inputs, const at::Device& device) {
  if (inputs.resumed != nullptr) return train::recorded_choice(inputs.resumed->trainer().at("kernels"));
  return {.products = chosen_products(inputs, device)};
}

ops::KernelChoice choose_kernels(const RunInputs& inputs, const at::Device& device, comm::Comm& all) {
  if (inputs.resumed != nullptr) return train::recorded_choice(inputs.resumed->trainer().at("kernels"));
  const std::string record = train::broadcast_result(all, [&] {
    return train::kernel_record({.device = device,
                                 .type = nn::scalar_type(inputs.config.train.precision),
                                 .choice = {.products = chosen_products(inputs, device)}})
        .dump();
  });
  return {.products = train::recorded_choice(Json::parse(record)).products};
}

std::optional<machine::Machine> predicted_machine(const RunInputs& inputs, const at::Device& device,
                                                  comm::World& world) {
  const std::string& name = inputs.config.observe.machine;
  if (name.empty()) return std::nullopt;
  if (name != measured_machine) return machine::load(name);
  if (!inputs.options.measure_machine) return std::nullopt;
  return inputs.options.measure_machine(world, device, nn::scalar_type(inputs.config.train.precision));
}

config::Config with_route(const RunInputs& inputs, const std::optional<machine::Machine>& machine, comm::World& world) {
  config::Config config = inputs.config;
  config::LayoutConfig& layout = config.layout;
  const bool is_given = layout.route != config::Routing::automatic &&
                        layout.rails_gather != config::RailsGather::automatic &&
                        (layout.context == 1 || layout.context_route != config::ContextRoute::automatic);
  if (is_given || !machine) return config;
  std::array<int64_t, 3> chosen = {};
  if (world.rank() == 0) {
    plan::PlannedRun run(inputs.config, world.size(), world.ranks_per_node());
    run.take_route(plan::chosen_route(run, *machine));
    const machine::Software software = machine::load_software("terrace");
    chosen = {static_cast<int64_t>(run.config.layout.route),
              static_cast<int64_t>(plan::chosen_rails_gather(run, *machine)),
              static_cast<int64_t>(plan::chosen_context_route(run, *machine, software))};
  }
  world.connect(mesh::all_ranks("route", world.size()))
      ->broadcast(chosen.data(), std::ssize(chosen), comm::Type::int64, 0, {.what = "route"})
      .wait();
  layout.route = static_cast<config::Routing>(chosen[0]);
  layout.rails_gather = static_cast<config::RailsGather>(chosen[1]);
  if (layout.context > 1) layout.context_route = static_cast<config::ContextRoute>(chosen[2]);
  if (world.rank() == 0) warn_of_keys_idle_by_route(config, inputs.config, world);
  return config;
}

}  // namespace terrace::run
