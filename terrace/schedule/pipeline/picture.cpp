// Writes the SVG text: heading, rows, time axis and legend.
#include "terrace/schedule/pipeline/picture.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/base/text/plural.h"
#include "terrace/config/names.h"
#include "terrace/schedule/step/times.h"

namespace terrace::schedule {
namespace {

using Kind = Instruction::Kind;

constexpr double unit_width = 28, row_height = 28, row_pitch = 33, left = 70, top = 46;

struct Style {
  Kind kind;
  std::string_view name, first_chunk, later_chunks;
};

constexpr std::array<Style, 4> styles = {{
    {Kind::forward, "forward", "#2f66b0", "#a9c9f0"},
    {Kind::backward, "backward", "#2b7f45", "#a6dbb4"},
    {Kind::input_gradient, "input gradient", "#147f86", "#98dcdf"},
    {Kind::weight_gradient, "weight gradient", "#b8610f", "#f5c793"},
}};

const Style& style_of(Kind kind) {
  return *std::find_if(styles.begin(), styles.end(), [kind](const Style& style) { return style.kind == kind; });
}

// Plain labels are black on a light page and white on a dark page; the colours of labels in boxes depend on the box.
constexpr std::string_view style_sheet = R"(<style>
text { font: 12px "DejaVu Sans", Verdana, sans-serif; fill: #222; }
.title { font-size: 14px; font-weight: bold; }
.axis, .idle { fill: #888; }
.box { text-anchor: middle; font-size: 11px; }
.white { fill: #fff; }
.black { fill: #111; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
@media (prefers-color-scheme: dark) { text { fill: #ddd; } .black { fill: #111; } .white { fill: #fff; } .axis { fill: #888; } }
</style>
)";

std::string box(double x, double y, double width, const Instruction& instruction) {
  const Style& style = style_of(instruction.kind);
  const bool first = instruction.chunk == 0;
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" rx=\"2\" fill=\"{}\"/>"
      "<text class=\"box {}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
      x + 0.5, y, width - 1, row_height, first ? style.first_chunk : style.later_chunks, first ? "white" : "black",
      x + width / 2, y + row_height / 2 + 4, instruction.micro_batch);
}

class Drawing {
 public:
  explicit Drawing(const Pipeline& pipeline)
      : pipeline_(pipeline), lists_(instructions(pipeline)), bounds_(live_bounds(pipeline)) {
    const double unit = 1.0 / static_cast<double>(pipeline.chunks);
    times_ = simulate_schedule(lists_, placement(pipeline), balanced({unit, unit, unit}));
  }

  std::string svg() const {
    const double bottom = top + row_pitch * static_cast<double>(pipeline_.stages);
    // The picture is at least as wide as the step of 1F1B, so that pictures of equal pipelines have the same scale.
    const auto widest = static_cast<double>(3 * (pipeline_.stages + pipeline_.micro_batches - 1));
    const double width = std::max(x_of(std::max(times_.seconds, widest)) + 46, 700.0);
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\">\n",
        width, bottom + 56);
    text += style_sheet;
    text += fmt::format("<text class=\"title\" x=\"4\" y=\"20\">{}</text>\n", heading());
    for (size_t stage = 0; stage < lists_.size(); ++stage) text += row(stage);
    return text + axis(bottom) + legend(bottom + 42) + "</svg>\n";
  }

 private:
  static double x_of(double time) { return left + time * unit_width; }

  // Activations alive are counted in micro-batches of a whole stage.
  std::string heading() const {
    int64_t most = 0;
    for (const Live& bound : bounds_) most = std::max(most, bound.together);
    const double whole = static_cast<double>(most) / static_cast<double>(pipeline_.chunks);
    return fmt::format(
        "{}: {}, {}{}; idle {:.1f}%, at most {:g} micro-batches alive", config::name_of(pipeline_.schedule),
        counted(pipeline_.stages, "stage"), counted(pipeline_.micro_batches, "micro-batch", "micro-batches"),
        pipeline_.chunks == 1 ? "" : fmt::format(", {} chunks", pipeline_.chunks), 100 * times_.bubble_share(), whole);
  }

  std::string row(size_t stage) const {
    const double y = top + row_pitch * static_cast<double>(stage);
    std::string text = fmt::format("<text x=\"4\" y=\"{:.1f}\">stage {}</text>\n", y + row_height / 2 + 4, stage);
    text += fmt::format(
        "<rect class=\"idle\" opacity=\"0.18\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>\n", left, y,
        times_.seconds * unit_width, row_height);
    for (size_t i = 0; i < lists_[stage].size(); ++i) {
      if (!is_computation(lists_[stage][i].kind)) continue;
      const auto& [start, end] = times_.intervals[stage][i];
      text += box(x_of(start), y, (end - start) * unit_width, lists_[stage][i]);
    }
    return text;
  }

  // Draws one number every three units, the time of one micro-batch on one stage, and the optimizer step at the end.
  std::string axis(double y) const {
    std::string text;
    for (double time = 0; time <= times_.seconds - 1; time += 3) {
      text +=
          fmt::format("<text class=\"axis middle\" x=\"{:.1f}\" y=\"{:.1f}\">{:g}</text>\n", x_of(time), y + 10, time);
    }
    const double end = x_of(times_.seconds) + 2;
    text += fmt::format("<rect class=\"axis\" x=\"{:.1f}\" y=\"{}\" width=\"2\" height=\"{:.1f}\"/>\n", end, top - 4,
                        y - top + 3);
    return text + fmt::format(
                      "<text x=\"{:.1f}\" y=\"{}\">step</text>\n<text class=\"middle\" x=\"{:.1f}\" "
                      "y=\"{:.1f}\">{:g}</text>\n",
                      end + 8, top + row_height / 2 + 4, end, y + 12, times_.seconds);
  }

  std::string legend(double y) const {
    std::set<Kind> used;
    for (const Instruction& instruction : lists_.front()) used.insert(instruction.kind);
    std::string text;
    double x = left;
    for (const Style& style : styles) {
      if (!used.contains(style.kind)) continue;
      for (int64_t chunk = 0; chunk < std::min<int64_t>(pipeline_.chunks, 2); ++chunk) {
        text += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"14\" rx=\"2\" fill=\"{}\"/>\n", x,
                            y - 12, chunk == 0 ? style.first_chunk : style.later_chunks);
        x += 17;
      }
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 2, y, style.name);
      x += 24 + 7.5 * static_cast<double>(style.name.size());
    }
    if (pipeline_.chunks > 1) {
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">(first chunk dark, {} light)</text>\n", x, y,
                          pipeline_.chunks == 2 ? "second" : "later ones");
    }
    return text;
  }

  Pipeline pipeline_;
  std::vector<Instructions> lists_;
  std::vector<Live> bounds_;
  ScheduleTimes times_;
};

}  // namespace

std::string picture(const Pipeline& pipeline) { return Drawing(pipeline).svg(); }

}  // namespace terrace::schedule
