// metrics.csv in the run's folder: a row a step, made from metrics.jsonl, for spreadsheets.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "terrace/observe/metrics.h"

namespace terrace::observe {

class CsvFile {
 public:
  // Replaces folder/metrics.csv by the rows of `so_far`. Errors of the file system throw std::system_error.
  CsvFile(const std::filesystem::path& folder, const RunMetrics& so_far);
  CsvFile(CsvFile&& other) noexcept
      : path_(std::move(other.path_)),
        file_(std::exchange(other.file_, -1)),
        step_(std::exchange(other.step_, {})),
        evaluation_(std::exchange(other.evaluation_, {})) {}
  // Writes the last row.
  ~CsvFile();

  // A row is written when the next one begins, so that an evaluation of its step, which comes later, stands in it.
  void add(const StepMetrics& metrics);
  void add(const EvaluationMetrics& metrics);
  // Writes what is held back and makes it durable.
  void sync();

 private:
  void flush();

  std::filesystem::path path_;
  int file_ = -1;
  std::optional<StepMetrics> step_;
  std::optional<EvaluationMetrics> evaluation_;
};

}  // namespace terrace::observe
