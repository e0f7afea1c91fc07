// Reads a run's folder and draws what it finds.
#include "terrace/observe/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/units.h"
#include "terrace/observe/curve.h"
#include "terrace/observe/metrics.h"

namespace terrace::observe {
namespace {

namespace fs = std::filesystem;

// What the steps say of speed and size; numbers that are not known are left out.
struct StepFigures {
  std::vector<double> step_seconds, tokens_per_second, flops_per_second;
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
    add(step.tokens_per_second, figures.tokens_per_second);
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

Json by_corpus(const EvaluationMetrics& evaluation) {
  Json losses = Json::object();
  for (const auto& [corpus, loss] : evaluation.by_corpus) losses[corpus] = number_or_null(loss);
  return losses;
}

// The mean of the last twentieth of the steps: a single batch's loss is noisy.
Json closing_loss(const std::vector<std::pair<double, double>>& points) {
  if (points.empty()) return nullptr;
  const size_t count = std::max<size_t>(1, points.size() / 20);
  double sum = 0;
  for (size_t i = points.size() - count; i < points.size(); ++i) sum += points[i].second;
  return sum / static_cast<double>(count);
}

std::string number(const Json& value, const char* format) {
  return value.is_number() ? fmt::format(fmt::runtime(format), value.get<double>()) : "not measured";
}

Json summarize(const fs::path& folder, const RunMetrics& metrics) {
  const Json facts = Json::parse(read_text(folder / "run.json"), nullptr, false);
  if (facts.is_discarded()) throw UserError::of("{} is not JSON", (folder / "run.json").string());
  const StepMetrics last = metrics.steps.empty() ? StepMetrics{} : metrics.steps.rbegin()->second;
  const LossHistory losses = losses_of(metrics);
  const StepFigures figures = figures_of(metrics);
  const EvaluationMetrics evaluation = last_evaluation(metrics);
  Json summary = {{"steps", last.step},
                  {"tokens", last.tokens},
                  {"loss", closing_loss(losses.training)},
                  {"validation_loss", number_or_null(evaluation.validation_loss)},
                  {"validation_loss_by_corpus", by_corpus(evaluation)},
                  {"tokens_per_second", median(figures.tokens_per_second)},
                  {"step_seconds", median(figures.step_seconds)},
                  {"memory_bytes", figures.memory_bytes}};
  for (const char* key : {"unigram_loss", "parameters", "precision", "peak_name", "peak_flops_per_second"}) {
    if (!facts.contains(key)) throw UserError::of("{}: the key {} is missing", (folder / "run.json").string(), key);
    summary[key] = facts[key];
  }
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

}  // namespace

Json summarize_run(const fs::path& folder) { return summarize(folder, read_run(folder)); }

std::string draw_summary(const fs::path& folder) {
  const RunMetrics metrics = read_run(folder);
  const Json summary = summarize(folder, metrics);
  const LossHistory losses = losses_of(metrics);
  Chart chart{.series = {{"training loss", losses.training}, {"held-out loss", losses.validation}}, .levels = {}};
  if (summary["unigram_loss"].is_number()) chart.levels.push_back({"unigram model", summary["unigram_loss"]});
  std::string text = draw(chart) + "\n";
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("  {:<18}{}\n", name, value);
  };
  line("parameters", format_count(summary["parameters"]));
  line("trained", fmt::format("{} steps, {} tokens in {}", format_count(summary["steps"]),
                              format_count(summary["tokens"]), summary["precision"].get<std::string>()));
  line("training loss", number(summary["loss"], "{:.3f} nats a token (mean of the last steps)"));
  line("held-out loss", number(summary["validation_loss"], "{:.3f} nats a token"));
  for (const auto& [corpus, loss] : summary["validation_loss_by_corpus"].items()) {
    line("  " + corpus + " ", number(loss, "{:.3f}"));
  }
  line("unigram model", number(summary["unigram_loss"], "{:.3f} nats a token on all held-out tokens"));
  line("speed", fmt::format("{} tokens/s, {} s a step (medians)", number(summary["tokens_per_second"], "{:.0f}"),
                            number(summary["step_seconds"], "{:.3f}")));
  line("mfu", number(summary["mfu"], "{:.2f}") +
                  (summary["peak_flops_per_second"] > 0
                       ? fmt::format(" of {}, {}", format_flops(summary["peak_flops_per_second"]),
                                     summary["peak_name"].get<std::string>())
                       : ""));
  line("memory", format_bytes(summary["memory_bytes"].get<double>()));
  line("folder", fmt::format("{}, {} in {} files", folder.string(), format_bytes(summary["folder_bytes"].get<double>()),
                             summary["files"].size()));
  return text;
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
