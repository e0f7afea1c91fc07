// Writes trials as rows, and reads them back by the names of their columns.
#include "terrace/search/results.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/csv.h"
#include "terrace/search/results_table.h"
#include "terrace/search/study/study_record.h"
#include "terrace/search/study/value.h"

namespace terrace::search {
namespace {

constexpr const char* file_name = "results.csv";

std::optional<Point> point_of(const ResultsTable& table, size_t row, const Space& space) {
  std::vector<std::string> texts;
  for (const Parameter& parameter : space.parameters()) {
    texts.push_back(table.cell(row, table.column("p:" + parameter.name)));
  }
  return space.point_of(texts);
}

// The columns of the goals.
std::vector<std::string> objective_columns(size_t goals) {
  if (goals == 1) return {"objective"};
  std::vector<std::string> names;
  for (size_t i = 0; i < goals; ++i) names.push_back("objective_" + std::to_string(i));
  return names;
}

// The objectives, or the failure that stands in their place.
void read_objectives(const ResultsTable& table, size_t row, size_t goals, Trial& trial) {
  for (const std::string& name : objective_columns(goals)) {
    const std::string& text = table.cell(row, table.column(name));
    const std::optional<double> number = parse_number(text);
    if (number) {
      trial.objectives.push_back(*number);
      continue;
    }
    if (!text.starts_with('F')) {
      throw UserError::of("{}: {} = {} is neither a number nor a failure, such as F_oom", table.place(row), name, text);
    }
    trial.objectives.clear();
    trial.outcome.failure = text.starts_with("F_") ? text.substr(2) : "error";
    trial.outcome.reason = table.cell(row, "m:reason");
    return;
  }
}

bool halves(const Study& study) { return study.settings.method == Method::successive_halving; }

Trial read_trial(const ResultsTable& table, size_t row, const Study& study) {
  Trial trial;
  const std::optional<Point> point = point_of(table, row, study.space);
  if (!point) {
    throw UserError::of("{}: the row is not in the space; use another --output, or warm-start a new search by --from",
                        table.place(row));
  }
  trial.point = *point;
  read_objectives(table, row, study.settings.goals.size(), trial);
  const auto number = [&](const std::string& name) { return parse_number(table.cell(row, name)); };
  const auto whole = [&](const std::string& name) { return static_cast<int64_t>(number(name).value_or(0)); };
  trial.job_id = whole("job_id");
  trial.trial = halves(study) ? whole("m:trial") : trial.job_id;
  trial.budget = halves(study) ? whole("m:budget") : 0;
  trial.submitted = number("m:timestamp_submit").value_or(0);
  trial.gathered = number("m:timestamp_gather").value_or(0);
  for (const TrialFigure& figure : study.figures) {
    if (!trial.failed()) trial.outcome.figures.push_back(number("m:" + figure.name).value_or(std::nan("")));
  }
  return trial;
}

std::filesystem::path made_folder(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace

Results::Results(const std::filesystem::path& folder, const Study& study)
    : file_(made_folder(folder) / file_name), study_(study), header_(results_header(study)) {
  const std::string text = file_.read_new();
  if (text.empty()) {
    write_record(folder, study);
    file_.append(header_);
  } else if (!text.starts_with(header_)) {
    throw UserError::of("{} belongs to another space: its first row is not {}; use another --output",
                        file_.path().string(), std::string_view(header_).substr(0, header_.size() - 1));
  } else {
    check_record(folder, study);
    earlier_ = read_rows(text.substr(header_.size()));
  }
  sync();
  sync_folder(folder);
}

std::vector<Trial> Results::read_rows(const std::string& lines) {
  const ResultsTable table(file_.path(), header_ + lines, rows_);
  std::vector<Trial> trials;
  for (size_t row = 0; row < table.size(); ++row) trials.push_back(read_trial(table, row, study_));
  rows_ += table.size();
  return trials;
}

std::vector<Trial> Results::read_new() {
  const std::string lines = file_.read_new();
  return lines.empty() ? std::vector<Trial>() : read_rows(lines);
}

void Results::add(const Trial& trial) {
  file_.append(results_row(study_, trial));
  ++rows_;
}

std::string results_header(const Study& study) {
  std::string line;
  for (const Parameter& parameter : study.space.parameters()) line += csv_cell("p:" + parameter.name) + ",";
  for (const std::string& name : objective_columns(study.settings.goals.size())) line += name + ",";
  line += "job_id,job_status,m:timestamp_submit,m:timestamp_gather,m:reason";
  if (halves(study)) line += ",m:trial,m:budget";
  for (const TrialFigure& figure : study.figures) line += "," + csv_cell("m:" + figure.name);
  return line + "\n";
}

std::string results_row(const Study& study, const Trial& trial) {
  std::string line;
  for (const std::string& text : study.space.texts(trial.point)) line += csv_cell(text) + ",";
  const Outcome& outcome = trial.outcome;
  for (size_t i = 0; i < study.settings.goals.size(); ++i) {
    line += (trial.failed() ? "F_" + outcome.failure : fmt::format("{}", trial.objectives[i])) + ",";
  }
  std::string reason = outcome.reason;
  std::ranges::replace(reason, '\n', ' ');  // a row is a line
  std::ranges::replace(reason, '\r', ' ');
  line += fmt::format("{},DONE,{:.6f},{:.6f},{}", trial.job_id, trial.submitted, trial.gathered, csv_cell(reason));
  if (halves(study)) line += fmt::format(",{},{}", trial.trial, trial.budget);
  for (size_t i = 0; i < study.figures.size(); ++i) {
    const bool is_known = !trial.failed() && std::isfinite(outcome.figures[i]);
    line += is_known ? fmt::format(",{}", outcome.figures[i]) : ",";
  }
  return line + "\n";
}

EarlierTrials read_results(const std::filesystem::path& path, const Study& study) {
  const std::string text = read_text(path);
  const ResultsTable table(path, text);
  EarlierTrials earlier;
  for (size_t row = 0; row < table.size(); ++row) {
    const std::optional<Point> point = point_of(table, row, study.space);
    if (!point) {
      ++earlier.skipped;
      continue;
    }
    Trial trial{.job_id = static_cast<int64_t>(row), .point = *point};
    read_objectives(table, row, study.settings.goals.size(), trial);
    earlier.trials.push_back(std::move(trial));
  }
  return earlier;
}

}  // namespace terrace::search
