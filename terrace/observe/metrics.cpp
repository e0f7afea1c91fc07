// Appending lines, and cutting the file back to a step.
#include "terrace/observe/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "terrace/base/file.h"
#include "terrace/base/log.h"

namespace terrace::observe {
namespace {

constexpr const char* file_name = "metrics.jsonl";

[[noreturn]] void throw_errno(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), "cannot write " + path.string());
}

// The object of a line; null where it is none with a step.
Json parse_line(std::string_view line) {
  Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool is_line = object.is_object() && object.contains("step") && object["step"].is_number_integer();
  return is_line ? object : Json();
}

// Calls visit(line without its end) for every line, the last one also where its end is missing.
template <typename Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    visit(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
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

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& folder, int64_t last_step) : path_(folder / file_name) {
  std::filesystem::create_directories(folder);
  if (std::filesystem::exists(path_)) cut_back(path_, last_step);
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) throw_errno(path_);
}

MetricsWriter::~MetricsWriter() {
  if (file_ >= 0) ::close(file_);
}

void MetricsWriter::append(const Json& line) {
  const std::string text = line.dump() + '\n';
  if (::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) throw_errno(path_);
}

void MetricsWriter::write(const StepMetrics& metrics) {
  append({{"step", metrics.step},
          {"loss", metrics.loss},
          {"gradient_norm", metrics.gradient_norm},
          {"learning_rate", metrics.learning_rate},
          {"tokens", metrics.tokens},
          {"tokens_per_second", metrics.tokens_per_second},
          {"step_seconds", metrics.step_seconds},
          {"mfu", metrics.mfu},
          {"peak_flops_per_second", metrics.peak_flops_per_second},
          {"memory_bytes", metrics.memory_bytes}});
}

void MetricsWriter::write(const EvaluationMetrics& metrics) {
  append({{"step", metrics.step}, {"validation_loss", metrics.validation_loss}});
}

void MetricsWriter::sync() {
  if (::fsync(file_) != 0) throw_errno(path_);
}

LossHistory read_losses(const std::filesystem::path& folder) {
  LossHistory history;
  for_each_line(read_text(folder / file_name), [&](std::string_view line) {
    const Json object = parse_line(line);
    const auto add = [&](const char* name, std::vector<std::pair<double, double>>& series) {
      if (object.is_null() || !object.contains(name) || !object[name].is_number()) return;
      series.emplace_back(object["step"].get<double>(), object[name].get<double>());
    };
    add("loss", history.training);
    add("validation_loss", history.validation);
  });
  return history;
}

}  // namespace terrace::observe
