// Writes rows in the order of the keys; the cells of numbers that are not finite are empty.
#include "terrace/observe/csv_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/csv.h"
#include "terrace/observe/metric_keys.h"

namespace terrace::observe {
namespace {

constexpr const char* csv_name = "metrics.csv";

// Numbers have the shortest digits that give the same number, as in the JSON lines.
std::string cell(int64_t value) { return fmt::format("{}", value); }
std::string cell(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string header(const std::vector<std::string>& datasets, const MetricNames& names) {
  std::string line;
  const StepMetrics none;
  for_each_key(none, names, [&](const std::string& key, const auto&) { line += csv_cell(key) + ","; });
  line += "validation_loss";
  for (const std::string& figure : names.evaluation_figures) line += "," + csv_cell("validation_" + figure);
  for (const std::string& dataset : datasets) {
    line += "," + csv_cell("validation_loss of " + dataset);
    for (const std::string& figure : names.evaluation_figures) {
      line += "," + csv_cell("validation_" + figure + " of " + dataset);
    }
  }
  return line + "\n";
}

// The cells of a dataset, each after a comma; empty where the evaluation lacks it.
std::string cells_of(const EvaluationMetrics* evaluation, const std::string& dataset, const MetricNames& names) {
  DatasetMetrics one{.dataset = dataset, .loss = std::nan("")};
  if (evaluation != nullptr) {
    const auto found = std::ranges::find(evaluation->by_dataset, dataset, &DatasetMetrics::dataset);
    if (found != evaluation->by_dataset.end()) one = *found;
  }
  std::string line = "," + cell(one.loss);
  const std::vector<double>& figures = one.figures;
  for_each_figure(figures, names.evaluation_figures, "",
                  [&](const std::string&, double value) { line += "," + cell(value); });
  return line;
}

std::string row(const StepMetrics* step, const EvaluationMetrics* evaluation, const std::vector<std::string>& datasets,
                const MetricNames& names) {
  std::string line;
  const StepMetrics none;
  const int64_t number = step != nullptr ? step->step : evaluation->step;
  for_each_key(step != nullptr ? *step : none, names, [&](const std::string& key, const auto& value) {
    if (key == "step") {
      line += cell(number) + ",";
    } else {
      line += (step != nullptr ? cell(value) : "") + ",";
    }
  });
  if (evaluation != nullptr) line += cell(evaluation->validation_loss);
  const std::vector<double> figures = evaluation != nullptr ? evaluation->figures : std::vector<double>{};
  for_each_figure(figures, names.evaluation_figures, "",
                  [&](const std::string&, double value) { line += "," + cell(value); });
  for (const std::string& dataset : datasets) line += cells_of(evaluation, dataset, names);
  return line + "\n";
}

}  // namespace

CsvFile::CsvFile(const std::filesystem::path& folder, const RunMetrics& so_far,
                 const std::vector<std::string>& datasets, const MetricNames& names)
    : path_(folder / csv_name), names_(names) {
  if (datasets.size() > 1) datasets_ = datasets;
  std::string text = header(datasets_, names_);
  auto evaluation = so_far.evaluations.begin();
  for (const auto& [number, step] : so_far.steps) {
    while (evaluation != so_far.evaluations.end() && evaluation->first < number) {
      text += row(nullptr, &evaluation++->second, datasets_, names_);
    }
    const bool evaluated = evaluation != so_far.evaluations.end() && evaluation->first == number;
    // A resumed run may begin with the evaluation of its last step.
    if (!evaluated && number == so_far.steps.rbegin()->first && evaluation == so_far.evaluations.end()) {
      step_ = step;
    } else {
      text += row(&step, evaluated ? &evaluation++->second : nullptr, datasets_, names_);
    }
  }
  for (; evaluation != so_far.evaluations.end(); ++evaluation)
    text += row(nullptr, &evaluation->second, datasets_, names_);
  write_text_atomically(path_, text);
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) throw_write_error(path_);
}

CsvFile::~CsvFile() {
  if (file_ < 0) return;
  try {
    flush();
  } catch (const std::exception& error) {
    log_warning("{}", error.what());
  }
  ::close(file_);
}

void CsvFile::add(const StepMetrics& metrics) {
  flush();
  step_ = metrics;
}

void CsvFile::add(const EvaluationMetrics& metrics) {
  // The evaluation of a skipped step has its own row.
  if (step_ && step_->step != metrics.step) flush();
  evaluation_ = metrics;
}

void CsvFile::flush() {
  if (!step_ && !evaluation_) return;
  const std::string line = row(step_ ? &*step_ : nullptr, evaluation_ ? &*evaluation_ : nullptr, datasets_, names_);
  step_.reset();
  evaluation_.reset();
  if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) throw_write_error(path_);
}

void CsvFile::sync() {
  if (::fsync(file_) != 0) throw_write_error(path_);
}

}  // namespace terrace::observe
