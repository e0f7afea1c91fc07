// Reads a run's folder and draws what it finds.
#include "terrace/observe/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/observe/curve.h"
#include "terrace/observe/figures.h"
#include "terrace/observe/metric_keys.h"
#include "terrace/observe/metrics.h"
#include "terrace/observe/noise_scale.h"
#include "terrace/observe/rank_profiles.h"
#include "terrace/observe/slowness_file.h"
#include "terrace/observe/step_comparison.h"
#include "terrace/observe/step_record.h"

namespace terrace::observe {
namespace {

namespace fs = std::filesystem;

// Figures of speed and size from the steps; numbers that are not known are left out.
struct StepFigures {
  std::vector<double> step_seconds, items_per_second, flops_per_second;
  double peak_flops_per_second = 0;  // the highest that the steps name
  int64_t memory_bytes = 0;
};

StepFigures figures_of(const RunMetrics& metrics) {
  StepFigures figures;
  const auto add = [](double value, std::vector<double>& values) {
    if (std::isfinite(value)) values.push_back(value);
  };
  for (const auto& [_, step] : metrics.steps) {
    add(step.step_seconds, figures.step_seconds);
    add(step.items_per_second, figures.items_per_second);
    add(step.mfu * step.peak_flops_per_second, figures.flops_per_second);
    figures.peak_flops_per_second = std::fmax(figures.peak_flops_per_second, step.peak_flops_per_second);
    figures.memory_bytes = std::max(figures.memory_bytes, step.memory_bytes);
  }
  return figures;
}

Json median(std::vector<double> values) {
  if (values.empty()) return nullptr;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Leaves out names that begin with a dot: they are those of locks and of files that are still being written.
Json list_files(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && !entry.path().filename().string().starts_with(".")) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  Json files = Json::array();
  for (const fs::path& path : paths) files.push_back({{"path", path.string()}, {"bytes", fs::file_size(path)}});
  return files;
}

// The last evaluation that gave a number.
EvaluationMetrics last_evaluation(const RunMetrics& metrics) {
  for (auto it = metrics.evaluations.rbegin(); it != metrics.evaluations.rend(); ++it) {
    if (std::isfinite(it->second.validation_loss)) return it->second;
  }
  return {.validation_loss = std::nan("")};
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// The losses by dataset, and the figures by name and dataset.
void add_by_dataset(const RunMetrics& metrics, const EvaluationMetrics& evaluation, Json& summary) {
  Json& losses = summary[by_dataset_key("validation_loss")] = Json::object();
  for (const DatasetMetrics& one : evaluation.by_dataset) {
    losses[one.dataset] = number_or_null(one.loss);
    for_each_figure(one.figures, metrics.names.evaluation_figures, "validation_",
                    [&](const std::string& key, double value) {
                      summary[by_dataset_key(key)][one.dataset] = number_or_null(value);
                    });
  }
}

// The mean over the last twentieth of the steps in which the number is known: a single batch's loss is noisy.
Json closing_mean(const RunMetrics& metrics, const std::function<double(const StepMetrics&)>& of) {
  std::vector<double> values;
  for (const auto& [_, step] : metrics.steps) {
    if (std::isfinite(of(step))) values.push_back(of(step));
  }
  if (values.empty()) return nullptr;
  const size_t count = std::max<size_t>(1, values.size() / 20);
  double sum = 0;
  for (size_t i = values.size() - count; i < values.size(); ++i) sum += values[i];
  return sum / static_cast<double>(count);
}

// Figures of the family.
void add_figures(const RunMetrics& metrics, const EvaluationMetrics& evaluation, Json& summary) {
  for (size_t i = 0; i < metrics.names.figures.size(); ++i) {
    const std::string& name = metrics.names.figures[i];
    summary[name] = closing_mean(
        metrics, [i](const StepMetrics& step) { return i < step.figures.size() ? step.figures[i] : std::nan(""); });
  }
  for_each_figure_of(evaluation, metrics.names,
                     [&](const std::string& key, double value) { summary[key] = number_or_null(value); });
}

// The outputs whose figures of the last steps say that they depend on no input.
Json dead_outputs(const RunMetrics& metrics, const Json& summary) {
  Json dead = Json::array();
  for (const std::string& figure : metrics.names.figures) {
    const std::string output = output_of_spread(figure);
    if (!output.empty() && summary[figure].is_number() && summary[figure] < least_spread) dead.push_back(output);
  }
  return dead;
}

// With phases the batch of the last step is not that of the run's facts.
void add_noise_scale(const RunMetrics& metrics, const Json& facts, Json& summary) {
  const std::optional<NoiseScaleAtStep> last = last_noise_scale(metrics);
  if (!last) return;
  const double batch = facts.contains("phases") ? 0 : facts.value("global_batch", 0.0);
  summary["noise_scale"] = last->samples;
  summary["noise_scale_step"] = last->step;
  summary["noise_scale_text"] = noise_scale_text(*last, batch, facts.value("samples", "samples"));
}

// Ranks of the summary, spread over all: pages draw a row for each.
constexpr int64_t most_ranks = 64, most_waits = 10;

// Adds the texts of what was named as slow and the profile of all ranks, where the run has them.
void add_watch(const fs::path& folder, Json& summary) {
  if (const std::vector<std::string> slow = texts_of(read_slowness(folder)); !slow.empty()) summary["slow"] = slow;
  const std::optional<ProfiledRanks> profiled = read_rank_profiles(folder);
  if (!profiled) return;
  Json ranks = Json::array(), waits = Json::array();
  const auto all = std::ssize(profiled->ranks), step = std::max<int64_t>(1, (all + most_ranks - 1) / most_ranks);
  for (int64_t i = 0; i < all; i += step) {
    const RankProfile& rank = profiled->ranks[static_cast<size_t>(i)];
    ranks.push_back({{"rank", rank.rank},
                     {"stage", rank.stage},
                     {"place", rank.place},
                     {"step_seconds", rank.step_seconds},
                     {"computing_seconds", rank.computing()},
                     {"waiting_seconds", rank.waiting()},
                     {"memory_bytes", sum(rank.memory_bytes)}});
  }
  for (const WaitForRank& wait : longest_waits(profiled->ranks, most_waits)) {
    waits.push_back(
        {{"waiting", wait.waiting}, {"awaited", wait.awaited}, {"group", wait.group}, {"seconds", wait.seconds}});
  }
  summary["profile"] = {{"step", profiled->step},
                        {"ranks", all},
                        {"shown_ranks", ranks},
                        {"waits", waits},
                        {"critical_path", profiled->critical_path},
                        {"sentences", sentences_of(*profiled)}};
}

std::string number(const Json& value, const char* format, const std::string& behind = "") {
  return value.is_number() ? fmt::format(fmt::runtime(format), value.get<double>()) + behind : "not measured";
}

// " K" for a figure in kelvins, as run.json describes it; "" where it has no unit.
std::string unit_of(const Json& figures, const std::string& name) {
  for (const Json& one : figures) {
    if (one.value("name", "") == name && !one.value("unit", "").empty()) return " " + one.value("unit", "");
  }
  return "";
}

Json summarize(const fs::path& folder, const RunMetrics& metrics) {
  const Json facts = parse_json_or_discard(read_text(folder / "run.json"));
  if (facts.is_discarded()) throw UserError::of("{} is not JSON", (folder / "run.json").string());
  const StepMetrics last = metrics.steps.empty() ? StepMetrics{} : metrics.steps.rbegin()->second;
  const StepFigures figures = figures_of(metrics);
  const EvaluationMetrics evaluation = last_evaluation(metrics);
  Json summary = {{"steps", last.step},
                  {metrics.names.items, last.items},
                  {"loss", closing_mean(metrics, [](const StepMetrics& step) { return step.loss; })},
                  {"validation_loss", number_or_null(evaluation.validation_loss)},
                  {"learning_rate", metrics.steps.empty() ? Json() : number_or_null(last.learning_rate)},
                  {"gradient_norm", closing_mean(metrics, [](const StepMetrics& step) { return step.gradient_norm; })},
                  {metrics.names.items + "_per_second", median(figures.items_per_second)},
                  {"step_seconds", median(figures.step_seconds)},
                  {"memory_bytes", figures.memory_bytes}};
  add_by_dataset(metrics, evaluation, summary);
  add_figures(metrics, evaluation, summary);
  if (Json dead = dead_outputs(metrics, summary); !dead.empty()) summary["dead_outputs"] = std::move(dead);
  add_noise_scale(metrics, facts, summary);
  add_watch(folder, summary);
  summary["figures"] = facts.value("figures", Json::array());
  summary["loss_unit"] = facts.value("loss_unit", "");
  summary["baselines"] = facts.value("baselines", Json::array());
  for (const Json& baseline : summary["baselines"])
    summary[baseline.at("key").get<std::string>()] = baseline.at("loss");
  for (const char* key : {"parameters", "precision", "peak_name", "peak_flops_per_second"}) {
    if (!facts.contains(key)) throw UserError::of("{}: the key {} is missing", (folder / "run.json").string(), key);
    summary[key] = facts[key];
  }
  if (facts.contains("phases")) summary["phases"] = facts["phases"];
  // A peak that a step has raised holds for the steps before it too, and so for those of a part that was resumed.
  const double peak = std::max(figures.peak_flops_per_second, summary["peak_flops_per_second"].get<double>());
  summary["peak_flops_per_second"] = peak;
  const Json rate = median(figures.flops_per_second);
  summary["mfu"] = rate.is_number() && peak > 0 ? Json(rate.get<double>() / peak) : Json();
  summary["folder"] = folder.string();
  summary["files"] = list_files(folder);
  int64_t folder_bytes = 0;
  for (const Json& file : summary["files"]) folder_bytes += file["bytes"].get<int64_t>();
  summary["folder_bytes"] = folder_bytes;
  return summary;
}

void check_is_run(const fs::path& folder) {
  if (!fs::exists(folder / "run.json")) {
    throw UserError::of("{} holds no run: there is no run.json in it; give the checkpoint.folder of a configuration",
                        folder.string());
  }
}

RunMetrics read_run(const fs::path& folder) {
  check_is_run(folder);
  return read_metrics(folder);
}

// The table of a step that was predicted and measured; "" for runs without both records.
std::string draw_comparison(const fs::path& folder) {
  const fs::path predicted = folder / predicted_step_file, measured = folder / measured_step_file;
  if (!fs::exists(predicted) || !fs::exists(measured)) return "";
  return "\n" + table_of(read_step_record(predicted), read_step_record(measured));
}

}  // namespace

Json summarize_run(const fs::path& folder) { return summarize(folder, read_run(folder)); }

std::string draw_summary(const fs::path& folder) {
  const RunMetrics metrics = read_run(folder);
  const Json summary = summarize(folder, metrics);
  const LossHistory losses = losses_of(metrics);
  Chart chart{.series = {{"training loss", losses.training}, {"held-out loss", losses.validation}}, .levels = {}};
  for (const Json& baseline : summary["baselines"])
    chart.levels.push_back({baseline["name"].get<std::string>(), baseline["loss"].get<double>()});
  std::string text = draw(chart) + "\n";
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("  {:<18}{}\n", name, value);
  };
  line("parameters", format_count(summary["parameters"].get<int64_t>()));
  const std::string& items = metrics.names.items;
  std::string unit = summary["loss_unit"].get<std::string>();
  if (!unit.empty()) unit = " " + unit;
  line("trained",
       fmt::format("{}, {} {} in {}", counted(summary["steps"].get<uint64_t>(), "step"),
                   format_count(summary[items].get<int64_t>()), items, summary["precision"].get<std::string>()));
  line("training loss", number(summary["loss"], "{:.3f}", unit + " (mean of the last steps)"));
  line("held-out loss", number(summary["validation_loss"], "{:.3f}", unit));
  for (const auto& [dataset, loss] : summary[by_dataset_key("validation_loss")].items()) {
    line("  " + dataset + " ", number(loss, "{:.3f}"));
  }
  for (const std::string& figure : metrics.names.evaluation_figures) {
    const std::string behind = unit_of(summary["figures"], figure);
    const std::string training =
        summary.contains(figure) ? number(summary[figure], "{:.4g}", behind) + ", " : std::string();
    line(figure, training + "held-out " + number(summary["validation_" + figure], "{:.4g}", behind));
    const auto by_dataset = summary.find(by_dataset_key("validation_" + figure));
    if (by_dataset == summary.end()) continue;
    for (const auto& [dataset, value] : by_dataset->items())
      line("  " + dataset + " ", number(value, "{:.4g}", behind));
  }
  for (const Json& baseline : summary["baselines"]) {
    line(baseline["name"].get<std::string>(), number(baseline["loss"], "{:.3f}", unit + " on all held-out " + items));
  }
  line("learning rate", number(summary["learning_rate"], "{:.3g}", " in the last step"));
  line("gradient norm", number(summary["gradient_norm"], "{:.3g}", " (mean of the last steps)"));
  line("speed", fmt::format("{} {}/s, {} s a step (medians)", number(summary[items + "_per_second"], "{:.0f}"), items,
                            number(summary["step_seconds"], "{:.3f}")));
  line("mfu", number(summary["mfu"], "{:.2f}") +
                  (summary["peak_flops_per_second"] > 0
                       ? fmt::format(" of {}, {}", format_flops(summary["peak_flops_per_second"].get<double>()),
                                     summary["peak_name"].get<std::string>())
                       : ""));
  for (const Json& output : summary.value("dead_outputs", Json::array())) {
    line("warning", dead_output_text(output.get<std::string>()));
  }
  if (summary.contains("noise_scale_text")) line("noise scale", summary["noise_scale_text"].get<std::string>());
  for (const Json& slow : summary.value("slow", Json::array())) line("slow", slow.get<std::string>());
  if (summary.contains("profile")) {
    for (const Json& sentence : summary["profile"]["sentences"]) line("profile", sentence.get<std::string>());
  }
  line("memory", format_bytes(summary["memory_bytes"].get<double>()));
  line("folder", fmt::format("{}, {} in {}", folder.string(), format_bytes(summary["folder_bytes"].get<double>()),
                             counted(summary["files"].size(), "file")));
  return text + draw_comparison(folder);
}

std::string draw_files(const fs::path& folder) {
  check_is_run(folder);
  std::string text = "  files\n";
  for (const Json& file : list_files(folder)) {
    text += fmt::format("    {:>10}  {}\n", format_bytes(file["bytes"].get<double>()), file["path"].get<std::string>());
  }
  return text;
}

}  // namespace terrace::observe
