// Rows in the order of the keys; numbers that are not finite are empty.
#include "terrace/observe/csv_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <system_error>

#include "terrace/base/file.h"
#include "terrace/base/log.h"
#include "terrace/observe/metric_keys.h"

namespace terrace::observe {
namespace {

constexpr const char* file_name = "metrics.csv";

// As in the JSON lines: the shortest digits that give the same number.
std::string cell(int64_t value) { return fmt::format("{}", value); }
std::string cell(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

std::string header() {
  std::string line;
  const StepMetrics none;
  for_each_key(none, [&](const char* key, const auto&) { line += key + std::string(","); });
  return line + "validation_loss\n";
}

std::string row(const StepMetrics* step, const EvaluationMetrics* evaluation) {
  std::string line;
  const StepMetrics none;
  const int64_t number = step != nullptr ? step->step : evaluation->step;
  for_each_key(step != nullptr ? *step : none, [&](const char* key, const auto& value) {
    if (key == std::string("step")) {
      line += cell(number) + ",";
    } else {
      line += (step != nullptr ? cell(value) : "") + ",";
    }
  });
  return line + (evaluation != nullptr ? cell(evaluation->validation_loss) : "") + "\n";
}

[[noreturn]] void throw_errno(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), "cannot write " + path.string());
}

}  // namespace

CsvFile::CsvFile(const std::filesystem::path& folder, const RunMetrics& so_far) : path_(folder / file_name) {
  std::string text = header();
  auto evaluation = so_far.evaluations.begin();
  for (const auto& [number, step] : so_far.steps) {
    while (evaluation != so_far.evaluations.end() && evaluation->first < number) {
      text += row(nullptr, &evaluation++->second);
    }
    const bool evaluated = evaluation != so_far.evaluations.end() && evaluation->first == number;
    text += row(&step, evaluated ? &evaluation++->second : nullptr);
  }
  for (; evaluation != so_far.evaluations.end(); ++evaluation) text += row(nullptr, &evaluation->second);
  write_text_atomically(path_, text);
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) throw_errno(path_);
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
  // The evaluation of a step that was passed over stands in a row of its own.
  if (step_ && step_->step != metrics.step) flush();
  evaluation_ = metrics;
}

void CsvFile::flush() {
  if (!step_ && !evaluation_) return;
  const std::string line = row(step_ ? &*step_ : nullptr, evaluation_ ? &*evaluation_ : nullptr);
  step_.reset();
  evaluation_.reset();
  if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) throw_errno(path_);
}

void CsvFile::sync() {
  flush();
  if (::fsync(file_) != 0) throw_errno(path_);
}

}  // namespace terrace::observe
