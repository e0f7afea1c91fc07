// metrics.csv in the run's folder: a row a step, made from metrics.jsonl, for spreadsheets.
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
  // Replaces folder/metrics.csv by the rows of `so_far`; the losses of corpora that are more than one have columns.
  // Errors of the file system throw std::system_error.
  CsvFile(const std::filesystem::path& folder, const RunMetrics& so_far, const std::vector<std::string>& corpora);
  CsvFile(CsvFile&& other) noexcept
      : path_(std::move(other.path_)),
        corpora_(std::move(other.corpora_)),
        file_(std::exchange(other.file_, -1)),
        step_(std::exchange(other.step_, {})),
        evaluation_(std::exchange(other.evaluation_, {})) {}
  // Writes the last row.
  ~CsvFile();

  // A row is written when the next one begins, so that an evaluation of its step, which comes later, stands in it.
  void add(const StepMetrics& metrics);
  void add(const EvaluationMetrics& metrics);
  // Makes the rows written durable, on any thread. A row that is held back stays so: its evaluation may come after the
  // checkpoint of its step, and a resumed run makes the file again from metrics.jsonl.
  void sync();

 private:
  void flush();

  std::filesystem::path path_;
  std::vector<std::string> corpora_;  // none where there is only one
  int file_ = -1;
  std::optional<StepMetrics> step_;
  std::optional<EvaluationMetrics> evaluation_;
};

}  // namespace terrace::observe
