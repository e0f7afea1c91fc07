// Writes and reads metrics.jsonl in the run's folder: one JSON object a line, each step once, even across restarts. The
// writer can also write the metrics for TensorBoard and as CSV.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace terrace::observe {

// The names of what differs from one family of models to another.
struct MetricNames {
  // The name of what the family counts, such as tokens: the key of its number, and with _per_second behind it the key
  // of its rate.
  std::string items = "samples";
  // Keys of the family's figures (figures.h) in steps, and in evaluations, where validation_ is in front of them.
  std::vector<std::string> figures = {}, evaluation_figures = {};

  bool operator==(const MetricNames&) const = default;
};

// The work of staging on the node of the first rank since the start (docs/staging.md).
struct StageMetrics {
  int64_t copied_bytes = 0;    // to the disk of the node, from the files
  int64_t received_bytes = 0;  // to there, from other nodes (data.order = "node")
  int64_t staged_bytes = 0;    // read from there
  int64_t source_bytes = 0;    // read from the files themselves
  double source_seconds = 0;   // that this took, of all ranks of the node together

  bool operator==(const StageMetrics&) const = default;
};

// How unequally ranks compute (slow_ranks.h), as of the last steps that were judged.
struct WatchMetrics {
  int64_t slowest_rank = 0;   // that exceeds the ranks with the same work by most
  double slowest_excess = 0;  // 0.24: its computing takes 1.24 times as long as theirs
  int64_t slow_ranks = 0;     // the number of ranks that are named as slow
  int64_t slow_links = 0;     // the number of links that are named as slow

  bool operator==(const WatchMetrics&) const = default;
};

// Numbers that are not finite are written as null.
struct StepMetrics {
  int64_t step = 0;          // counted from 1
  double loss = 0;           // what is minimised: a mean over the step
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  int64_t items = 0;  // since the beginning of the run; the key is MetricNames::items
  double items_per_second = 0;
  double step_seconds = 0;
  double mfu = std::numeric_limits<double>::quiet_NaN();  // share of peak_flops_per_second
  double peak_flops_per_second = std::numeric_limits<double>::quiet_NaN();
  int64_t memory_bytes = 0;          // the most that the process has held: resident, or on its GPU
  std::vector<double> figures = {};  // by MetricNames::figures
  // The phase of the run, 0 before its first phase; -1 where the configuration has no phases, then there is no key.
  int64_t phase = -1;
  std::optional<StageMetrics> stage = {};  // only with data.stage
  // The averaged gradient noise scale (optim/noise_scale.h) in samples, in steps that measure it; elsewhere there is no
  // key. It is not finite where the noise hides the gradient.
  std::optional<double> noise_scale = {};
  std::optional<WatchMetrics> watch = {};  // only where ranks are watched and have been judged

  bool operator==(const StepMetrics&) const = default;
};

// The results of an evaluation on one of several held-out datasets.
struct DatasetMetrics {
  std::string dataset;  // as the configuration names it
  double loss = 0;
  std::vector<double> figures = {};  // by MetricNames::evaluation_figures

  bool operator==(const DatasetMetrics&) const = default;
};

struct EvaluationMetrics {
  int64_t step = 0;
  double validation_loss = 0;
  // Results by dataset, only where there are several datasets. In JSON these are the objects validation_loss_by_dataset
  // and, for each figure, validation_FIGURE_by_dataset, with a member for each dataset.
  std::vector<DatasetMetrics> by_dataset = {};
  std::vector<double> figures = {};  // by MetricNames::evaluation_figures

  bool operator==(const EvaluationMetrics&) const = default;
};

class CsvFile;
class EventFile;

// The formats that are written in addition to metrics.jsonl.
struct MetricsFormats {
  bool tensorboard = false;  // event files in folder/tensorboard
  bool csv = false;          // folder/metrics.csv
  // The held-out datasets. If there are several, each has its own columns in the CSV.
  std::vector<std::string> datasets = {};
  MetricNames names = {};
};

class MetricsWriter {
 public:
  // Opens folder/metrics.jsonl (created where it is missing) to continue after `last_step`, which is 0 for a new run.
  // Lines of later steps, an incomplete last line and unreadable lines are removed by replacing the file atomically.
  // The other formats get the same steps. Errors of the file system throw std::system_error.
  MetricsWriter(const std::filesystem::path& folder, int64_t last_step, const MetricsFormats& formats = {});
  MetricsWriter(MetricsWriter&& other) noexcept;
  ~MetricsWriter();

  // Appends each line by one system call, so that it can be read at once. If a write fails, as on a full disk, the
  // lines are kept in memory and written with a later line; this is logged once.
  void write(const StepMetrics& metrics);
  void write(const EvaluationMetrics& metrics);
  // Makes the written lines durable. Call it before a checkpoint counts as complete; it may be called from any thread.
  // Throws std::system_error where a write fails.
  void sync();

 private:
  template <typename Metrics>
  void write_all(const Metrics& metrics, const char* run);
  void append(const std::string& text);

  std::filesystem::path path_;
  std::string waiting_;
  int file_ = -1;
  MetricNames names_;
  std::unique_ptr<EventFile> events_;
  std::unique_ptr<CsvFile> csv_;
};

// Metrics by step. If several lines have the same step, the last one counts. Numbers that are null are read as NaN.
struct RunMetrics {
  MetricNames names;
  std::map<int64_t, StepMetrics> steps;
  std::map<int64_t, EvaluationMetrics> evaluations;
};

// Reads a run's metrics.jsonl, of earlier versions too. The names are those in its lines; a figure that a line lacks is
// NaN. Lines that cannot be read or lack another key are left out. Throws UserError where there is no such file.
RunMetrics read_metrics(const std::filesystem::path& folder);

// (step, loss), for the curve; losses that are not finite are left out.
struct LossHistory {
  std::vector<std::pair<double, double>> training;
  std::vector<std::pair<double, double>> validation;
};

LossHistory losses_of(const RunMetrics& metrics);
LossHistory read_losses(const std::filesystem::path& folder);

}  // namespace terrace::observe
