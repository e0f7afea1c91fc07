// Appends lines, truncates the file to a step, and reads it.
#include "terrace/observe/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json.h"
#include "terrace/observe/csv_file.h"
#include "terrace/observe/event_file.h"
#include "terrace/observe/last_metrics.h"
#include "terrace/observe/metric_keys.h"

namespace terrace::observe {
namespace {

constexpr const char* metrics_name = "metrics.jsonl";
constexpr const char* phase_key = "phase";
constexpr const char* noise_scale_key = "noise_scale";
constexpr const char* received_key = "stage_received_bytes";

// The keys of a step's line with data.stage, and their fields.
template <typename Stage, typename Visit>
void for_each_stage_key(Stage&& stage, Visit visit) {
  visit("stage_copied_bytes", stage.copied_bytes);
  visit(received_key, stage.received_bytes);
  visit("stage_read_bytes", stage.staged_bytes);
  visit("source_read_bytes", stage.source_bytes);
  visit("source_read_seconds", stage.source_seconds);
}

// The keys of a step's line where ranks are watched, and their fields.
template <typename Watch, typename Visit>
void for_each_watch_key(Watch&& watch, Visit visit) {
  visit("slowest_rank", watch.slowest_rank);
  visit("slowest_excess", watch.slowest_excess);
  visit("slow_ranks", watch.slow_ranks);
  visit("slow_links", watch.slow_links);
}
constexpr const char* time_key = "time";  // when the line was written; lines of older versions lack it

// Seconds since the epoch, to the millisecond.
double wall_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) / 1e3;
}

template <typename Metrics>
Json line_of(const Metrics& metrics, const MetricNames& names) {
  Json line = Json::object();
  for_each_key(metrics, names, [&](const std::string& key, auto value) { line[key] = value; });
  if constexpr (std::is_same_v<Metrics, EvaluationMetrics>) {
    for (const DatasetMetrics& one : metrics.by_dataset) {
      line[by_dataset_key("validation_loss")][one.dataset] = one.loss;
      for_each_figure(one.figures, names.evaluation_figures, "validation_",
                      [&](const std::string& key, double value) { line[by_dataset_key(key)][one.dataset] = value; });
    }
  }
  if constexpr (std::is_same_v<Metrics, StepMetrics>) {
    if (metrics.phase >= 0) line[phase_key] = metrics.phase;
    if (metrics.stage) for_each_stage_key(*metrics.stage, [&](const char* key, auto value) { line[key] = value; });
    if (metrics.noise_scale) line[noise_scale_key] = *metrics.noise_scale;
    if (metrics.watch) for_each_watch_key(*metrics.watch, [&](const char* key, auto value) { line[key] = value; });
  }
  return line;
}

bool read_number(const Json& value, int64_t& number) {
  if (value.is_number_integer()) number = value.get<int64_t>();
  return value.is_number_integer();
}

bool read_number(const Json& value, double& number) {
  number = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  return value.is_number() || value.is_null();
}

// The losses and figures by dataset in an evaluation's line; nothing where they have another type.
std::optional<std::vector<DatasetMetrics>> by_dataset_of(const Json& line, const MetricNames& names) {
  std::vector<DatasetMetrics> datasets;
  auto losses = line.find(by_dataset_key("validation_loss"));
  if (losses == line.end()) losses = line.find(older_by_dataset_key);
  if (losses == line.end()) return datasets;
  if (!losses->is_object()) return std::nullopt;
  for (const auto& item : losses->items()) {
    const std::string& dataset = item.key();
    DatasetMetrics& one = datasets.emplace_back(DatasetMetrics{.dataset = dataset});
    if (!read_number(item.value(), one.loss)) return std::nullopt;
    for_each_figure(one.figures, names.evaluation_figures, "validation_", [&](const std::string& key, double& value) {
      const auto values = line.find(by_dataset_key(key));
      const bool has_it = values != line.end() && values->is_object() && values->contains(dataset);
      read_number(has_it ? (*values)[dataset] : Json(), value);
    });
  }
  return datasets;
}

// Returns nullopt where a key that every family has is missing, or has another type.
template <typename Metrics>
std::optional<Metrics> metrics_of(const Json& line, const MetricNames& names) {
  Metrics metrics;
  bool whole = true;
  for_each_core_key(metrics, names, [&](const std::string& key, auto& field) {
    const auto found = line.find(key);
    whole = whole && found != line.end() && read_number(*found, field);
  });
  if (!whole) return std::nullopt;
  for_each_figure_of(metrics, names, [&](const std::string& key, double& value) {
    const auto found = line.find(key);
    whole &= read_number(found == line.end() ? Json() : *found, value);
  });
  if constexpr (std::is_same_v<Metrics, EvaluationMetrics>) {
    std::optional<std::vector<DatasetMetrics>> datasets = by_dataset_of(line, names);
    if (!datasets) return std::nullopt;
    metrics.by_dataset = std::move(*datasets);
  }
  if constexpr (std::is_same_v<Metrics, StepMetrics>) {
    if (const auto phase = line.find(phase_key); phase != line.end()) whole &= read_number(*phase, metrics.phase);
    StageMetrics stage;
    bool stages = true;
    for_each_stage_key(stage, [&](const char* key, auto& field) {
      const auto found = line.find(key);
      if (found == line.end() && std::string_view(key) == received_key) return;  // of an older run
      stages = stages && found != line.end() && read_number(*found, field);
    });
    if (stages) metrics.stage = stage;
    WatchMetrics watch;
    bool watched = true;
    for_each_watch_key(watch, [&](const char* key, auto& field) {
      const auto found = line.find(key);
      watched = watched && found != line.end() && read_number(*found, field);
    });
    if (watched) metrics.watch = watch;
    if (const auto noise = line.find(noise_scale_key); noise != line.end()) {
      whole &= read_number(*noise, metrics.noise_scale.emplace());
    }
  }
  return whole ? std::optional(metrics) : std::nullopt;
}

// The names in a step's line: items are what has a rate, and figures the keys that are in no step's line of their own.
// No value where the line is not a step's.
std::optional<MetricNames> names_of(const Json& line) {
  const std::string suffix = "_per_second";
  MetricNames names;
  bool has_items = false;
  for (const auto& [key, value] : line.items()) {
    if (!key.ends_with(suffix) || !line.contains(key.substr(0, key.size() - suffix.size()))) continue;
    names.items = key.substr(0, key.size() - suffix.size());
    has_items = true;
  }
  if (!has_items) return std::nullopt;
  std::set<std::string> core;
  const StepMetrics none;
  for_each_key(none, names, [&](const std::string& key, auto) { core.insert(key); });
  core.insert(time_key);
  core.insert(phase_key);
  for_each_stage_key(StageMetrics{}, [&](const char* key, auto) { core.insert(key); });
  core.insert(noise_scale_key);
  for_each_watch_key(WatchMetrics{}, [&](const char* key, auto) { core.insert(key); });
  for (const auto& [key, value] : line.items()) {
    if (!core.contains(key)) names.figures.push_back(key);
  }
  return names;
}

// Adds the figures of an evaluation's line that `names` lacks.
void add_evaluation_figures(const Json& line, std::vector<std::string>& names) {
  const std::string prefix = "validation_";
  if (!line.is_object() || !line.contains(prefix + "loss")) return;
  for (const auto& [key, value] : line.items()) {
    if (!key.starts_with(prefix) || key == prefix + "loss" || value.is_object()) continue;
    const std::string name = key.substr(prefix.size());
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
}

// The JSON object of a line; null where the line is not an object with a step.
Json parse_line(std::string_view line) {
  Json object = parse_json_or_discard(line);
  const bool is_line = object.is_object() && object.contains("step") && object["step"].is_number_integer();
  return is_line ? object : Json();
}

// Calls visit(line without its newline) for every line, including a last line without a newline.
template <typename Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    visit(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
}

// Leaves out unknown numbers; a loss that is not finite is shown.
template <typename Metrics>
std::vector<Scalar> scalars_of(const Metrics& metrics, const MetricNames& names, const std::string& group) {
  std::vector<Scalar> scalars;
  for_each_key(metrics, names, [&](const std::string& key, auto value) {
    const std::string name = key.starts_with("validation_") ? key.substr(std::strlen("validation_")) : key;
    const auto number = static_cast<double>(value);
    if (name == "step" || (name != "loss" && !std::isfinite(number))) return;
    scalars.push_back({group + "/" + name, number});
  });
  if constexpr (std::is_same_v<Metrics, StepMetrics>) {
    const double noise = metrics.noise_scale.value_or(std::numeric_limits<double>::quiet_NaN());
    if (std::isfinite(noise)) scalars.push_back({group + "/" + noise_scale_key, noise});
    if (metrics.watch) scalars.push_back({group + "/slowest_excess", metrics.watch->slowest_excess});
  }
  if constexpr (std::is_same_v<Metrics, EvaluationMetrics>) {
    for (const DatasetMetrics& one : metrics.by_dataset) {
      scalars.push_back({group + "/loss/" + one.dataset, one.loss});
      for_each_figure(one.figures, names.evaluation_figures, "", [&](const std::string& name, double value) {
        if (std::isfinite(value)) scalars.push_back({group + "/" + name + "/" + one.dataset, value});
      });
    }
  }
  return scalars;
}

void cut_back(const std::filesystem::path& path, int64_t last_step) {
  const std::string text = read_text(path);
  std::string kept;
  int64_t unreadable = 0;
  for_each_line(text, [&](std::string_view line) {
    const Json object = parse_line(line);
    if (object.is_null()) {
      ++unreadable;
    } else if (object["step"].get<int64_t>() <= last_step) {
      kept.append(line) += '\n';
    }
  });
  if (unreadable > 0) log_warning("{}: unreadable lines removed: {}", path.string(), unreadable);
  if (kept != text) write_text_atomically(path, kept);
}

// Reads metrics by the names of `by`, or by those of all lines: a later version of the program may have written more
// figures.
RunMetrics metrics_in(const std::string& lines_of_file, const MetricNames* by = nullptr);

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& folder, int64_t last_step, const MetricsFormats& formats)
    : path_(folder / metrics_name), names_(formats.names) {
  std::filesystem::create_directories(folder);
  if (std::filesystem::exists(path_)) cut_back(path_, last_step);
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) throw_write_error(path_);
  if (formats.tensorboard) events_ = std::make_unique<EventFile>(folder / "tensorboard", last_step);
  if (formats.csv)
    csv_ = std::make_unique<CsvFile>(folder, metrics_in(read_text(path_), &names_), formats.datasets, names_);
}

MetricsWriter::MetricsWriter(MetricsWriter&& other) noexcept
    : path_(std::move(other.path_)),
      waiting_(std::move(other.waiting_)),
      file_(std::exchange(other.file_, -1)),
      names_(std::move(other.names_)),
      events_(std::move(other.events_)),
      csv_(std::move(other.csv_)) {}

MetricsWriter::~MetricsWriter() {
  if (file_ < 0) return;
  if (!waiting_.empty()) append("");
  if (!waiting_.empty()) log_warning("{}: its last lines could not be written and are lost", path_.string());
  ::close(file_);
}

void MetricsWriter::append(const std::string& text) {
  const bool waited = !waiting_.empty();
  waiting_ += text;
  ssize_t written = 0;
  // A write that was cut short has no error; the next one gives it.
  do {
    written = ::write(file_, waiting_.data(), waiting_.size());
    if (written > 0) waiting_.erase(0, static_cast<size_t>(written));
  } while (written > 0 && !waiting_.empty());
  const int error = errno;
  if (waited && waiting_.empty()) log_info("{} has its lines again", path_.string());
  if (!waited && !waiting_.empty()) {
    log_warning("{} cannot be written: {}; its lines are kept in memory until it can", path_.string(),
                std::strerror(error));
  }
}

void MetricsWriter::write(const StepMetrics& metrics) { write_all(metrics, "train"); }

void MetricsWriter::write(const EvaluationMetrics& metrics) { write_all(metrics, "validation"); }

template <typename Metrics>
void MetricsWriter::write_all(const Metrics& metrics, const char* run) {
  Json line = line_of(metrics, names_);
  line[time_key] = wall_seconds();
  append(line.dump() + '\n');
  try {
    if (events_) events_->write(metrics.step, scalars_of(metrics, names_, run));
    if (csv_) csv_->add(metrics);
  } catch (const std::system_error& error) {
    log_warning("{}; the run continues without the files for TensorBoard and CSV", error.what());
    events_.reset();
    csv_.reset();
  }
}

void MetricsWriter::sync() {
  if (::fsync(file_) != 0) throw_write_error(path_);
  if (events_) events_->sync();
  if (csv_) csv_->sync();
}

namespace {

RunMetrics metrics_in(const std::string& lines_of_file, const MetricNames* by) {
  RunMetrics metrics;
  std::vector<Json> lines;
  std::optional<MetricNames> names;
  for_each_line(lines_of_file, [&](std::string_view text) {
    const Json& line = lines.emplace_back(parse_line(text));
    const std::optional<MetricNames> own = names_of(line);
    if (!own) return;
    if (!names) names = own;
    for (const std::string& figure : own->figures) {
      if (std::ranges::find(names->figures, figure) == names->figures.end()) names->figures.push_back(figure);
    }
  });
  if (names) metrics.names = *names;
  for (const Json& line : lines) add_evaluation_figures(line, metrics.names.evaluation_figures);
  if (by != nullptr) metrics.names = *by;
  for (const Json& line : lines) {
    if (const auto step = metrics_of<StepMetrics>(line, metrics.names)) metrics.steps[step->step] = *step;
    if (const auto evaluation = metrics_of<EvaluationMetrics>(line, metrics.names)) {
      metrics.evaluations[evaluation->step] = *evaluation;
    }
  }
  return metrics;
}

// The whole lines at the end of the file, at most so many bytes together; "" where there is no file.
std::string last_lines(const std::filesystem::path& folder, int64_t most_bytes) {
  std::ifstream file(folder / metrics_name, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<int64_t>(file.tellg()), begin = std::max<int64_t>(0, size - most_bytes);
  std::string text(static_cast<size_t>(size - begin), '\0');
  file.seekg(begin);
  file.read(text.data(), std::ssize(text));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  // The first line is cut unless the text begins at the file's beginning.
  if (begin > 0) text.erase(0, std::min(text.size(), text.find('\n')));
  return text;
}

}  // namespace

RunMetrics read_metrics(const std::filesystem::path& folder) { return metrics_in(read_text(folder / metrics_name)); }

RunMetrics read_last_metrics(const std::filesystem::path& folder, int64_t most_bytes) {
  return metrics_in(last_lines(folder, most_bytes));
}

std::optional<double> time_of_last_step(const std::filesystem::path& folder, int64_t most_bytes) {
  std::optional<double> time;
  for_each_line(last_lines(folder, most_bytes), [&](std::string_view text) {
    const Json line = parse_line(text);
    if (!names_of(line)) return;  // of an evaluation
    const auto written = line.find(time_key);
    time = written != line.end() && written->is_number() ? std::optional(written->get<double>()) : std::nullopt;
  });
  return time;
}

LossHistory losses_of(const RunMetrics& metrics) {
  LossHistory history;
  const auto add = [](int64_t step, double loss, std::vector<std::pair<double, double>>& series) {
    if (std::isfinite(loss)) series.emplace_back(static_cast<double>(step), loss);
  };
  for (const auto& [step, line] : metrics.steps) add(step, line.loss, history.training);
  for (const auto& [step, line] : metrics.evaluations) add(step, line.validation_loss, history.validation);
  return history;
}

LossHistory read_losses(const std::filesystem::path& folder) { return losses_of(read_metrics(folder)); }

}  // namespace terrace::observe
