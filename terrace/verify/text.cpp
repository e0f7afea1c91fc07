// Writes a verdict as a table and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/verify/verify.h"

namespace terrace::verify {
namespace {

constexpr size_t most_rows = 40;

// The text has no sign of a NaN, which has no meaning.
std::string times(double ratio) { return std::isnan(ratio) ? "nan" : fmt::format("{:.2f}", ratio); }

std::string shown(const Difference& difference) {
  return difference.elements == 0 ? "0" : fmt::format("{:.1e}", difference.largest);
}

std::string shown(const ErrorPair& error) {
  if (error.ours == 0) return "0";
  return fmt::format("{}{}", times(error.ratio()), error.holds() ? "" : " !");
}

// The worse of two errors, for a row that stands for several tensors.
ErrorPair worse(const ErrorPair& a, const ErrorPair& b) {
  if (!a.holds() || !b.holds()) return a.holds() ? b : a;
  return b.ratio() > a.ratio() ? b : a;
}

// One row for each tensor, or for each segment if there are too many tensors.
std::vector<TensorVerdict> rows_of(const std::vector<TensorVerdict>& tensors) {
  if (tensors.size() <= most_rows) return tensors;
  std::vector<TensorVerdict> rows;
  for (const TensorVerdict& tensor : tensors) {
    if (rows.empty() || rows.back().segment != tensor.segment) {
      rows.push_back(tensor);
      rows.back().name = fmt::format("segment {}, from {}", tensor.segment, tensor.name);
      continue;
    }
    for (size_t i = 0; i < compared_names.size(); ++i) {
      rows.back().differences[i].add(tensor.differences[i]);
      rows.back().errors[i] = worse(rows.back().errors[i], tensor.errors[i]);
    }
  }
  return rows;
}

// "8 sequences", in the words of the family.
std::string samples_of(const Verdict& verdict) {
  const std::string& several = verdict.samples_name;
  return counted(verdict.sequences, singular(several), several);
}

std::string head_of(const Verdict& verdict) {
  std::string text = fmt::format("{}, {}: {} of {}; errors over {}\n", counted(verdict.ranks, "rank"), verdict.layout,
                                 counted(verdict.steps, "step"), samples_of(verdict), counted(verdict.seeds, "seed"));
  for (const KeyChange& change : verdict.changes) {
    text += fmt::format("  {} = {} instead of {}\n", change.key, change.to, change.from);
  }
  for (const std::string& note : verdict.notes) text += fmt::format("  {}\n", note);
  return text;
}

std::string table_of(const Verdict& verdict) {
  const std::vector<TensorVerdict> rows = rows_of(verdict.tensors);
  size_t width = std::string("gradient norm").size();
  for (const TensorVerdict& row : rows) width = std::max(width, row.name.size());
  std::string text =
      fmt::format("\n{:{}}  largest difference from plain          error, of one rank's (at most 2)\n", "", width);
  text += fmt::format("{:{}}", "", width);
  for (int half = 0; half < 2; ++half) {
    text += fmt::format("  {:>8} {:>8} {:>8} {:>8}", "gradient", "weight", "moment 1", "moment 2");
  }
  text += '\n';
  for (const TensorVerdict& row : rows) {
    text += fmt::format("{:{}} ", row.name, width);
    for (const Difference& difference : row.differences) text += fmt::format(" {:>8}", shown(difference));
    text += ' ';
    for (const ErrorPair& error : row.errors) text += fmt::format(" {:>8}", shown(error));
    text += '\n';
  }
  text +=
      fmt::format("{:{}}  {:>8} {:26}  {:>8}\n", "loss", width, shown(verdict.losses), "", shown(verdict.loss_error));
  text += fmt::format("{:{}}  {:>8}\n", "gradient norm", width, shown(verdict.norms));
  return text;
}

// The largest error as a multiple of one rank's error, and what it is the error of.
std::string largest_error(const Verdict& verdict) {
  ErrorPair largest = verdict.loss_error;
  std::string name = "loss";
  for (const TensorVerdict& tensor : verdict.tensors) {
    for (size_t i = 0; i < compared_names.size(); ++i) {
      const ErrorPair& error = tensor.errors[i];
      if (!largest.holds() || (error.holds() && !(error.ratio() > largest.ratio()))) continue;
      largest = error;
      name = fmt::format("{} of {}", compared_names[i], tensor.name);
    }
  }
  return fmt::format("{} times that of one rank, {}", times(largest.ratio()), name);
}

Json json_of(const Difference& difference) {
  return {{"elements", difference.elements}, {"largest", difference.largest}};
}

Json json_of(const ErrorPair& error) {
  return {{"error", error.ours}, {"one_rank", error.one_rank}, {"rounding", error.rounding}, {"holds", error.holds()}};
}

Json json_of(const TensorVerdict& tensor) {
  Json json = {{"name", tensor.name}, {"segment", tensor.segment}};
  for (size_t i = 0; i < compared_names.size(); ++i) {
    json[compared_names[i]] = {{"difference", json_of(tensor.differences[i])}, {"error", json_of(tensor.errors[i])}};
  }
  return json;
}

Json json_of(const Divergence& divergence) {
  return {{"step", divergence.step},
          {"segment", divergence.segment},
          {"segment_name", divergence.segment_name},
          {"rank", divergence.rank},
          {"micro_batch", divergence.micro_batch},
          {"operation", divergence.operation},
          {"tensor", divergence.tensor},
          {"what", divergence.what}};
}

}  // namespace

std::string text(const Verdict& verdict) {
  std::string text = head_of(verdict) + table_of(verdict) + '\n';
  if (verdict.bitwise()) {
    text += "bitwise   equal to plain data parallelism on as many ranks\n";
  } else if (verdict.divergence) {
    text += fmt::format("bitwise   NOT equal to plain data parallelism; the first that differs:\n          {}\n",
                        verdict.divergence->what);
  }
  text += fmt::format("accuracy  {}largest error {}\n", verdict.accurate() ? "" : "NOT kept: ", largest_error(verdict));
  text += verdict.holds() ? "holds\n" : "DOES NOT HOLD\n";
  return text;
}

Json json(const Verdict& verdict) {
  Json changes = Json::array(), tensors = Json::array();
  for (const KeyChange& change : verdict.changes) {
    changes.push_back({{"key", change.key}, {"from", change.from}, {"to", change.to}});
  }
  std::ranges::transform(verdict.tensors, std::back_inserter(tensors), [](const auto& t) { return json_of(t); });
  return {{"holds", verdict.holds()},
          {"bitwise", verdict.bitwise()},
          {"accurate", verdict.accurate()},
          {"ranks", verdict.ranks},
          {"layout", verdict.layout},
          {"steps", verdict.steps},
          {"sequences", verdict.sequences},
          {"seeds", verdict.seeds},
          {"changes", std::move(changes)},
          {"notes", verdict.notes},
          {"first_divergence", verdict.divergence ? json_of(*verdict.divergence) : Json()},
          {"loss", {{"difference", json_of(verdict.losses)}, {"error", json_of(verdict.loss_error)}}},
          {"gradient_norm", {{"difference", json_of(verdict.norms)}}},
          {"tensors", std::move(tensors)}};
}

}  // namespace terrace::verify
