// Writes the report of a score in four formats.
#include "terrace/score/score_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "terrace/base/text/csv.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"

namespace terrace::score {
namespace {

std::string percent(double share) { return fmt::format("{:+.1f}%", 100 * share); }

std::string line_of(const ScoredRun& one) {
  std::string text = fmt::format("  {:24} {:16} {:>6} devices  {:>9} measured {:>9} predicted {:>7}  {}",
                                 label_of(one.run), one.run.model, one.run.target.devices, format_seconds(one.measured),
                                 format_seconds(one.predicted), percent(one.error()), one.layout());
  if (one.run.memory_bytes > 0) {
    text += fmt::format("; memory {} of {}", format_bytes(one.predicted_memory), format_bytes(one.run.memory_bytes));
  }
  if (!one.fits) text += "; does not fit by prediction";
  for (const std::string& note : one.run.notes) text += "; " + note;
  return text + "\n";
}

std::string line_of(const Summary& sum) {
  std::string text = fmt::format("  {:24} {:>5} {:>7} mean absolute, {:>7} mean, {} to {}", sum.name, sum.runs,
                                 fmt::format("{:.1f}%", 100 * sum.mean_absolute), percent(sum.mean),
                                 percent(sum.lowest), percent(sum.highest));
  if (!std::isnan(sum.rank_correlation)) {
    text += fmt::format("; rank correlation {:.2f}, the chosen one {:.1f}% slower", sum.rank_correlation,
                        100 * sum.cost_of_choice);
  }
  if (sum.memory_runs > 0) {
    text += fmt::format("; memory {:.1f}% of {}", 100 * sum.memory_mean_absolute, counted(sum.memory_runs, "run"));
  }
  return text + "\n";
}

Json json_of(const ScoredRun& one) {
  Json json;
  json["table"] = one.run.table;
  json["line"] = one.run.line;
  json["id"] = one.run.name;
  json["model"] = one.run.model;
  json["devices"] = one.run.target.devices;
  json["machine"] = one.run.target.machine.name;
  json["software"] = one.run.target.software.name;
  json["kind"] = one.kind;
  json["layout"] = one.layout();
  json["measured_seconds"] = one.measured;
  json["predicted_seconds"] = one.predicted;
  json["error"] = one.error();
  json["measured_memory_bytes"] = one.run.memory_bytes > 0 ? Json(one.run.memory_bytes) : Json(nullptr);
  json["predicted_memory_bytes"] = one.predicted_memory;
  json["fits"] = one.fits;
  json["notes"] = one.run.notes;
  return json;
}

Json json_of(const Summary& sum) {
  Json json;
  json["name"] = sum.name;
  json["runs"] = sum.runs;
  json["mean_absolute_error"] = sum.mean_absolute;
  json["mean_error"] = sum.mean;
  json["lowest_error"] = sum.lowest;
  json["highest_error"] = sum.highest;
  json["rank_correlation"] = std::isnan(sum.rank_correlation) ? Json(nullptr) : Json(sum.rank_correlation);
  json["cost_of_choice"] = sum.cost_of_choice;
  json["memory_runs"] = sum.memory_runs;
  json["mean_absolute_memory_error"] = sum.memory_runs > 0 ? Json(sum.memory_mean_absolute) : Json(nullptr);
  return json;
}

Json json_of(const std::vector<Summary>& sums) {
  Json list = Json::array();
  for (const Summary& one : sums) list.push_back(json_of(one));
  return list;
}

// The square of a picture, whose axes are logarithms of seconds.
struct Axes {
  static constexpr double left = 70, top = 40, size = 420;
  double least = 0, most = 1;  // powers of ten

  double x(double seconds) const { return left + size * (std::log10(seconds) - least) / (most - least); }
  double y(double seconds) const { return top + size * (1 - (std::log10(seconds) - least) / (most - least)); }
  double last() const { return std::pow(10, most); }
  double first() const { return std::pow(10, least); }
};

Axes axes_of(const std::vector<ScoredRun>& runs) {
  double least = runs.front().measured, most = least;
  for (const ScoredRun& one : runs) {
    least = std::min({least, one.measured, one.predicted});
    most = std::max({most, one.measured, one.predicted});
  }
  return {.least = std::floor(std::log10(least)),
          .most = std::max(std::floor(std::log10(least)) + 1, std::ceil(std::log10(most)))};
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return safe;
}

// A line on which predictions are so many times what was measured, from one side of the square to the other.
std::string ratio_line(const Axes& axes, double ratio, std::string_view kind) {
  const double begin = ratio < 1 ? axes.first() / ratio : axes.first(),
               end = ratio < 1 ? axes.last() : axes.last() / ratio;
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind,
                     axes.x(begin), axes.y(begin * ratio), axes.x(end), axes.y(end * ratio));
}

}  // namespace

std::string label_of(const PublishedRun& run) { return run.name.empty() ? fmt::format("line {}", run.line) : run.name; }

std::string left_out_text(const std::vector<PublishedRun>& runs) {
  if (runs.empty()) return "";
  std::string text = fmt::format("{} left out\n", counted(runs.size(), "run"));
  for (const PublishedRun& run : runs) {
    const std::string place = run.line > 0 ? fmt::format("{}:{} {}", run.table, run.line, run.name) : run.table;
    text += fmt::format("  {}: {}\n", place, fmt::join(run.problems, "; "));
  }
  return text;
}

Json left_out_json(const std::vector<PublishedRun>& runs) {
  Json list = Json::array();
  for (const PublishedRun& run : runs) {
    list.push_back({{"table", run.table}, {"line", run.line}, {"id", run.name}, {"problems", run.problems}});
  }
  return list;
}

std::string text_of(const Score& score) {
  std::string text;
  std::string table;
  for (const ScoredRun& one : score.scored) {
    if (one.run.table != table) text += fmt::format("{}\n", table = one.run.table);
    text += line_of(one);
  }
  if (!score.scored.empty()) {
    text += "errors of predicted steps\n" + line_of(summary_of("all", score.scored));
    text += "by kind of layout\n";
    for (const Summary& one : by_kind(score.scored)) text += line_of(one);
    text += "by model\n";
    for (const Summary& one : by_model(score.scored)) text += line_of(one);
  }
  return text + left_out_text(score.left_out);
}

Json json_of(const Score& score) {
  Json json;
  json["runs"] = Json::array();
  for (const ScoredRun& one : score.scored) json["runs"].push_back(json_of(one));
  json["all"] = json_of(summary_of("all", score.scored));
  json["kinds"] = json_of(by_kind(score.scored));
  json["models"] = json_of(by_model(score.scored));
  json["left_out"] = left_out_json(score.left_out);
  return json;
}

std::string csv_of(const Score& score) {
  std::string text =
      "table,line,id,model,devices,machine,software,kind,layout,measured_seconds,predicted_seconds,error,"
      "measured_memory_bytes,predicted_memory_bytes,fits,notes\n";
  for (const ScoredRun& one : score.scored) {
    const std::vector<std::string> cells = {one.run.table,
                                            std::to_string(one.run.line),
                                            one.run.name,
                                            one.run.model,
                                            std::to_string(one.run.target.devices),
                                            one.run.target.machine.name,
                                            one.run.target.software.name,
                                            one.kind,
                                            one.layout(),
                                            fmt::format("{:.6g}", one.measured),
                                            fmt::format("{:.6g}", one.predicted),
                                            fmt::format("{:.4f}", one.error()),
                                            one.run.memory_bytes > 0 ? fmt::format("{:.0f}", one.run.memory_bytes) : "",
                                            fmt::format("{:.0f}", one.predicted_memory),
                                            one.fits ? "yes" : "no",
                                            fmt::format("{}", fmt::join(one.run.notes, "; "))};
    for (size_t i = 0; i < cells.size(); ++i) text += (i == 0 ? "" : ",") + csv_cell(cells[i]);
    text += "\n";
  }
  return text;
}

std::string picture_of(const Score& score) {
  constexpr double width = Axes::left + Axes::size + 30, height = Axes::top + Axes::size + 60;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\">\n",
      width, height);
  svg += R"(<style>
text { font: 12px "DejaVu Sans", Verdana, sans-serif; fill: #222; }
.frame { fill: none; stroke: #888; }
.equal { stroke: #888; }
.tenth { stroke: #bbb; stroke-dasharray: 4 3; }
.run { fill: #2f66b0; fill-opacity: 0.55; }
.end { text-anchor: end; }
.middle { text-anchor: middle; }
@media (prefers-color-scheme: dark) { text { fill: #ddd; } .run { fill: #a9c9f0; } .tenth { stroke: #555; } }
</style>
)";
  const Summary all = summary_of("all", score.scored);
  svg += fmt::format("<text x=\"{}\" y=\"24\">{}, mean absolute error {:.1f}%</text>\n", Axes::left,
                     counted(all.runs, "published run"), 100 * all.mean_absolute);
  if (score.scored.empty()) return svg + "</svg>\n";
  const Axes axes = axes_of(score.scored);
  svg += fmt::format("<rect class=\"frame\" x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{2}\"/>\n", Axes::left,
                     Axes::top, Axes::size);
  svg += ratio_line(axes, 1, "equal") + ratio_line(axes, 1.1, "tenth") + ratio_line(axes, 1 / 1.1, "tenth");
  for (double power = axes.least; power <= axes.most; ++power) {
    const double seconds = std::pow(10, power);
    const std::string label = fmt::format("{:g} s", seconds);
    svg += fmt::format("<text class=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", axes.x(seconds),
                       Axes::top + Axes::size + 18, label);
    svg += fmt::format("<text class=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", Axes::left - 6, axes.y(seconds) + 4,
                       label);
  }
  svg += fmt::format("<text class=\"middle\" x=\"{}\" y=\"{}\">measured step; lines: equal, 10% more and less</text>\n",
                     Axes::left + Axes::size / 2, height - 14);
  svg +=
      fmt::format("<text transform=\"rotate(-90 14 {0})\" class=\"middle\" x=\"14\" y=\"{0}\">predicted step</text>\n",
                  Axes::top + Axes::size / 2);
  for (const ScoredRun& one : score.scored) {
    svg += fmt::format("<circle class=\"run\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>{}</title></circle>\n",
                       axes.x(one.measured), axes.y(one.predicted),
                       escaped(fmt::format("{} {}, {} devices: {}", label_of(one.run), one.run.model,
                                           one.run.target.devices, percent(one.error()))));
  }
  return svg + "</svg>\n";
}

}  // namespace terrace::score
