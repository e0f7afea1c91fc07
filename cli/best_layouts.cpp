// Finds, prints and writes layouts.
#include "cli/best_layouts.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>

#include "cli/layout_limits.h"
#include "cli/ranges.h"
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/models/planned_families.h"
#include "terrace/plan/layouts/best.h"
#include "terrace/plan/layouts/fewest.h"
#include "terrace/plan/report/plan_report.h"
#include "terrace/translate/translation_report.h"

namespace terrace::cli {
namespace {

namespace fs = std::filesystem;

std::string comment_of(const std::string& line) { return line.empty() ? "" : "# " + line; }

// `of` is what it is the fastest of.
void write_fastest(const PlannedTarget& planned, const plan::Change& fastest, const std::string& of,
                   const plan::Target& target, const std::string& file) {
  const plan::Prediction& prediction = fastest.prediction;
  write_text_atomically(file,
                        fmt::format("# The fastest of {} of {} on {} of {}, as predicted for the program {}:\n"
                                    "# step {}, MFU {:.1f}%, {} of memory on the fullest device.\n{}{}",
                                    of, planned.config, counted(static_cast<uint64_t>(target.devices), "device"),
                                    target.machine.name, target.software.name, format_seconds(prediction.step_seconds),
                                    100 * prediction.mfu(), format_bytes(prediction.fullest().memory.total()),
                                    comment_of(plan::products_line(target)), config::dump(fastest.config)));
  const std::string missing = planned.missing_for_training();
  if (!missing.empty()) {
    log_warning("{} is for planning only, and has examples where {} lacks keys that training needs: {}", file,
                planned.config, missing);
  }
}

void check_file(const std::string& file, const std::string& config) {
  std::error_code ignored;  // one of them does not exist
  if (!fs::equivalent(file, config, ignored)) return;
  throw UserError::of("--write {} would replace the configuration itself; name another file", file);
}

// Shows how far the simulation of layouts is.
class SimulationProgress {
 public:
  std::function<void(double)> function() {
    return [this](double share) { progress_.update(static_cast<uint64_t>(share * parts)); };
  }
  void clear() { progress_.clear(); }

 private:
  static constexpr uint64_t parts = 1000;
  Progress progress_{"simulating layouts", parts};
};

void check_batches(const BestArguments& arguments, bool has_noise_scale) {
  if (has_noise_scale && arguments.batches.empty()) {
    throw UserError(
        "--noise-scale with --best compares layouts of several global batches; give them, such as --batches "
        "64,128,256, "
        "or leave --best out");
  }
  if (!has_noise_scale && !arguments.batches.empty()) {
    throw UserError(
        "--batches needs --noise-scale, by which steps of different batches compare; give a number of samples, such as "
        "--noise-scale 512, or the folder of a run that measured it");
  }
}

// Prints the object or the text, and with it the translated launch and the name of the file that was written.
void print_result(Json object, const std::string& text, const PlannedTarget& planned, const std::string& file,
                  bool json) {
  if (json) {
    if (planned.translation) object["translation"] = translate::json_of(*planned.translation);
    if (!file.empty()) object["written"] = file;
    fmt::print("{}\n", object.dump());
    return;
  }
  fmt::print("{}{}", planned.translation_text(), text);
  if (!file.empty()) fmt::print("{}\n", file);
}

}  // namespace

CLI::Option* add_best_options(CLI::App& command, BestArguments& arguments) {
  CLI::Option* best =
      command
          .add_option("--best", arguments.count,
                      "Find so many of the fastest layouts (if no number is given: 1): tensor, pipeline, schedule, "
                      "chunks, micro-batch, sharding, recompute, sequence parallelism and order of the axes vary, "
                      "except for keys that --set gives")
          ->check(positive())
          ->expected(0, 1)
          ->default_str("1");
  command
      .add_flag("--fewest", arguments.fewest,
                "With --best: on the fewest devices of the machine that hold the model, in place of --devices")
      ->needs(best)
      ->excludes(command.get_option("--devices"))
      ->excludes(command.get_option("--groups"));
  command
      .add_option("--limit", arguments.limits,
                  "With --best: a condition that layouts must hold, such as \"tensor <= 8\"; may be given again")
      ->allow_extra_args(false)
      ->needs(best);
  command
      .add_option("--batches", arguments.batches,
                  "With --best and --noise-scale: global batches, with commas between; the fastest layout of each, by "
                  "the time to the same loss")
      ->delimiter(',')
      ->check(positive())
      ->needs(best);
  command.add_option("--write", arguments.file,
                     "File for the configuration of the fastest layout of --best, of a translated launch, or for the "
                     "description of the "
                     "machine that --fit makes");
  return best;
}

void print_best_layouts(const PlannedTarget& planned, const BestArguments& arguments,
                        const std::optional<plan::GivenNoiseScale>& noise_scale, bool json) {
  check_batches(arguments, noise_scale.has_value());
  // The layouts decide which keys have an effect.
  const config::Config config = planned.load_config(config::IdleKeys::keep);
  PlannedTarget on_devices = planned;
  if (arguments.fewest) on_devices.devices = 1;
  const plan::Target target = on_devices.load_target();
  if (!arguments.file.empty()) check_file(arguments.file, planned.config);
  SimulationProgress progress;
  const plan::BestOptions options{.count = static_cast<size_t>(arguments.count),
                                  .limits = layout_limits(planned.overrides, arguments.limits, config, target.devices),
                                  .moves_constants = !noise_scale,
                                  .progress = progress.function()};
  const auto write = [&](const plan::Change& fastest, const std::string& of, const plan::Target& on) {
    if (!arguments.file.empty()) write_fastest(planned, fastest, of, on, arguments.file);
  };
  if (noise_scale) {
    const plan::BestBatches best = plan::best_batches(config, target, options, *noise_scale, arguments.batches);
    progress.clear();
    write(best.batches.front().layout,
          fmt::format("{} to the same loss", counted(static_cast<uint64_t>(arguments.batches.size()), "global batch")),
          target);
    return print_result(plan::json_of(best, target), plan::text_of(best, target, config.family->samples), planned,
                        arguments.file, json);
  }
  if (arguments.fewest) {
    const plan::FewestDevices fewest = plan::fewest_devices(config, target, options);
    progress.clear();
    write(fewest.best.layouts.front(), counted(static_cast<uint64_t>(fewest.best.legal), "layout"), fewest.target);
    return print_result(plan::json_of(fewest), plan::text_of(fewest), planned, arguments.file, json);
  }
  const plan::BestLayouts best = plan::best_layouts(config, target, options);
  progress.clear();
  write(best.layouts.front(), counted(static_cast<uint64_t>(best.legal), "layout"), target);
  print_result(plan::json_of(best, target), plan::text_of(best, target), planned, arguments.file, json);
}

}  // namespace terrace::cli
