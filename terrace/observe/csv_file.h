// metrics.csv in the run's folder has one row for each step, for spreadsheets. It is derived from metrics.jsonl.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/observe/metrics.h"

namespace terrace::observe {

class CsvFile {
 public:
  // Replaces folder/metrics.csv by the rows of `so_far`. If there are several datasets, the loss of each has a column.
  // Errors of the file system throw std::system_error.
  CsvFile(const std::filesystem::path& folder, const RunMetrics& so_far, const std::vector<std::string>& datasets,
          const MetricNames& names = {});
  CsvFile(CsvFile&& other) noexcept
      : path_(std::move(other.path_)),
        datasets_(std::move(other.datasets_)),
        names_(std::move(other.names_)),
        file_(std::exchange(other.file_, -1)),
        step_(std::exchange(other.step_, {})),
        evaluation_(std::exchange(other.evaluation_, {})) {}
  // Writes the last row.
  ~CsvFile();

  // A row is written when the next one begins, so that it includes the evaluation of its step, which comes later.
  void add(const StepMetrics& metrics);
  void add(const EvaluationMetrics& metrics);
  // Makes the written rows durable; may be called from any thread. The last row is still held back, because its
  // evaluation may come after the checkpoint of its step. A resumed run writes the file again from metrics.jsonl.
  void sync();

 private:
  void flush();

  std::filesystem::path path_;
  std::vector<std::string> datasets_;  // empty where there is only one
  MetricNames names_;
  int file_ = -1;
  std::optional<StepMetrics> step_;
  std::optional<EvaluationMetrics> evaluation_;
};

}  // namespace terrace::observe
