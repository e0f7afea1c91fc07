// Computes the scales, dots and labels of the chart.
#include "terrace/observe/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace terrace::observe {
namespace {

constexpr int dots_across = 2, dots_down = 4;  // in one Braille character
constexpr std::array<const char*, 4> marks = {"●", "◆", "▲", "x"};

// Bit of each dot of a Braille character, by row and column; the code point is U+2800 plus the bits.
constexpr uint8_t braille_bits[dots_down][dots_across] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

std::string braille(uint8_t bits) {
  const int code = 0x2800 + bits;
  return {static_cast<char>(0xE0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// Beyond 1e300 the difference of two numbers may not be finite any more.
bool drawable(double value) { return std::abs(value) <= 1e300; }
bool drawable(const std::pair<double, double>& point) { return drawable(point.first) && drawable(point.second); }

// A range of numbers and the distance of its ticks: 1, 2 or 5 times a power of ten.
struct Scale {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  double tick = 1;

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }

  void choose_ticks(int most) {
    const double magnitude = std::max(std::abs(low), std::abs(high));
    if (high - low <= 1e-12 * magnitude) {  // labels could not distinguish the values
      const double margin = magnitude < 1e-300 ? 1 : magnitude / 10;
      low -= margin;
      high += margin;
    }
    const double least = (high - low) / most;
    const double power = std::pow(10, std::floor(std::log10(least)));
    tick = 10 * power;
    for (const double factor : {5.0, 2.0, 1.0}) {
      if (factor * power >= least) tick = factor * power;
    }
  }
  void extend_to_ticks() {
    low = std::floor(low / tick) * tick;
    high = std::ceil(high / tick) * tick;
  }

  double share(double value) const { return (value - low) / (high - low); }

  std::vector<double> ticks() const {
    std::vector<double> values;
    const double first = std::ceil(low / tick - 1e-9);  // rounding must not lose a tick that lies on the edge
    for (int i = 0; (first + i) * tick <= high + tick * 1e-9; ++i) values.push_back((first + i) * tick);
    return values;
  }

  std::string label(double value) const {
    if (std::abs(value) < tick / 2) value = 0;
    if (std::max(std::abs(low), std::abs(high)) >= 1e7 || tick < 1e-4) return fmt::format("{:.3g}", value);
    return fmt::format("{:.{}f}", value, std::max(0, static_cast<int>(std::ceil(-std::log10(tick) - 1e-9))));
  }
};

// The plot's characters, row by row from the top.
struct Canvas {
  int columns, rows;
  Scale x, y;
  std::vector<uint8_t> dots;       // Braille bits of each character
  std::vector<std::string> signs;  // over the dots where not empty

  Canvas(int columns, int rows) : columns(columns), rows(rows), dots(columns * rows), signs(columns * rows) {}

  // Nearest of `count` equal steps from the low end.
  static int nearest(const Scale& scale, double value, int count) {
    return std::clamp(static_cast<int>(std::lround(scale.share(value) * (count - 1))), 0, count - 1);
  }
  int dot_column(double value) const { return nearest(x, value, columns * dots_across); }
  int dot_row(double value) const { return rows * dots_down - 1 - nearest(y, value, rows * dots_down); }

  void set_dot(int column, int row) {
    dots[row / dots_down * columns + column / dots_across] |= braille_bits[row % dots_down][column % dots_across];
  }

  void draw_line(const Series& series) {
    std::vector<double> sums(columns * dots_across), counts(sums.size());
    for (const auto& point : series.points) {
      if (!drawable(point)) continue;
      sums[dot_column(point.first)] += point.second;
      counts[dot_column(point.first)] += 1;
    }
    std::optional<int> last_column, last_row;
    for (int column = 0; column < columns * dots_across; ++column) {
      if (counts[column] == 0) continue;
      const int row = dot_row(sums[column] / counts[column]);
      connect(last_column.value_or(column), last_row.value_or(row), column, row);
      last_column = column;
      last_row = row;
    }
  }

  // Draws a line of dots without gaps from one point to the other.
  void connect(int from_column, int from_row, int column, int row) {
    const int steps = std::max({1, std::abs(column - from_column), std::abs(row - from_row)});
    for (int i = 0; i <= steps; ++i) {
      const double share = static_cast<double>(i) / steps;
      set_dot(static_cast<int>(std::lround(from_column + share * (column - from_column))),
              static_cast<int>(std::lround(from_row + share * (row - from_row))));
    }
  }

  void draw_marks(const Series& series, const char* mark) {
    for (const auto& point : series.points) {
      if (!drawable(point)) continue;
      signs[dot_row(point.second) / dots_down * columns + dot_column(point.first) / dots_across] = mark;
    }
  }

  void draw_level(double value) {
    const int row = dot_row(value) / dots_down;
    for (int i = row * columns; i < (row + 1) * columns; ++i) {
      if (dots[i] == 0 && signs[i].empty()) signs[i] = "┄";
    }
  }

  std::string row_text(int row) const {
    std::string text;
    for (int i = row * columns; i < (row + 1) * columns; ++i) {
      text += !signs[i].empty() ? signs[i] : dots[i] != 0 ? braille(dots[i]) : " ";
    }
    return text;
  }
};

// The axis below the plot and the numbers under its ticks.
std::string x_axis(const Canvas& canvas, size_t margin) {
  std::vector<std::string> line(canvas.columns, "─");
  std::string numbers(margin + 1 + canvas.columns, ' ');
  size_t free_from = 0;
  for (const double tick : canvas.x.ticks()) {
    const int column = canvas.dot_column(tick) / dots_across;
    const std::string label = canvas.x.label(tick);
    const size_t middle = margin + 1 + column;
    const size_t begin = std::min(middle - std::min(middle, label.size() / 2), numbers.size() - label.size());
    if (begin < free_from) continue;
    line[column] = "┬";
    numbers.replace(begin, label.size(), label);
    free_from = begin + label.size() + 1;
  }
  std::string text = std::string(margin, ' ') + "└";
  for (const std::string& sign : line) text += sign;
  return text + '\n' + numbers.substr(0, numbers.find_last_not_of(' ') + 1) + '\n';
}

size_t columns_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string legend(const Chart& chart, size_t margin) {
  std::vector<std::string> entries;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    entries.push_back(fmt::format("{} {}", i == 0 ? "⠶" : marks[(i - 1) % marks.size()], chart.series[i].name));
  }
  for (const ReferenceLine& level : chart.levels) {
    if (drawable(level.value)) entries.push_back(fmt::format("┄ {} {:.4g}", level.name, level.value));
  }
  if (!chart.x_name.empty()) entries.push_back("→ " + chart.x_name);
  std::string text(margin + 1, ' ');
  for (const std::string& entry : entries) {
    if (columns_of(text) + columns_of(entry) > static_cast<size_t>(chart.width)) break;
    text += entry + "   ";
  }
  return text.substr(0, text.find_last_not_of(' ') + 1) + '\n';
}

}  // namespace

std::string draw(const Chart& wanted) {
  Chart chart = wanted;
  chart.width = std::max(chart.width, 24);
  chart.height = std::max(chart.height, 6);
  Scale x, y;
  for (const Series& series : chart.series) {
    for (const auto& point : series.points) {
      if (!drawable(point)) continue;
      x.include(point.first);
      y.include(point.second);
    }
  }
  if (x.empty()) return "no finite value to draw\n";
  for (const ReferenceLine& level : chart.levels) {
    if (drawable(level.value)) y.include(level.value);
  }
  const int rows = chart.height - 3;  // the axis, its numbers and the legend
  y.choose_ticks(std::max(1, rows / 2));
  y.extend_to_ticks();
  size_t margin = 0;
  for (const double tick : y.ticks()) margin = std::max(margin, y.label(tick).size());
  Canvas canvas(chart.width - static_cast<int>(margin) - 1, rows);
  x.choose_ticks(std::max(1, canvas.columns / 10));
  canvas.x = x;
  canvas.y = y;
  if (!chart.series.empty()) canvas.draw_line(chart.series.front());
  for (size_t i = 1; i < chart.series.size(); ++i) canvas.draw_marks(chart.series[i], marks[(i - 1) % marks.size()]);
  for (const ReferenceLine& level : chart.levels) {
    if (drawable(level.value)) canvas.draw_level(level.value);
  }
  std::vector<std::string> labels(rows);
  for (const double tick : y.ticks()) labels[canvas.dot_row(tick) / dots_down] = y.label(tick);
  std::string text;
  for (int row = 0; row < rows; ++row) {
    const std::string plot = canvas.row_text(row);
    text += fmt::format("{:>{}}{}", labels[row], margin, labels[row].empty() ? "│" : "┤");
    text += plot.substr(0, plot.find_last_not_of(' ') + 1) + '\n';
  }
  return text + x_axis(canvas, margin) + legend(chart, margin);
}

std::string in_ascii(const std::string& drawn) {
  constexpr std::array<std::pair<std::string_view, char>, 11> signs = {{{"●", 'o'},
                                                                        {"◆", '#'},
                                                                        {"▲", '^'},
                                                                        {"┄", '-'},
                                                                        {"│", '|'},
                                                                        {"┤", '+'},
                                                                        {"└", '+'},
                                                                        {"┬", '+'},
                                                                        {"─", '-'},
                                                                        {"→", '>'},
                                                                        {"⠶", ':'}}};
  constexpr uint8_t upper = 0x01 | 0x02 | 0x08 | 0x10;  // the dots of the upper two rows
  std::string text;
  std::string_view rest = drawn;
  while (!rest.empty()) {
    const auto sign = std::ranges::find_if(signs, [&](const auto& one) { return rest.starts_with(one.first); });
    const bool is_dots = rest.size() >= 3 && rest[0] == '\xE2' && (rest[1] & 0xFC) == 0xA0;  // U+2800 to U+28FF
    size_t size = 1;
    if (sign != signs.end()) {
      size = sign->first.size();
      text += sign->second;
    } else if (is_dots) {
      size = 3;
      const auto bits = static_cast<uint8_t>(((rest[1] & 0x03) << 6) | (rest[2] & 0x3F));
      text += (bits & upper) == 0 ? '.' : (bits & ~upper) == 0 ? '\'' : ':';
    } else {
      text += rest.front();
    }
    rest.remove_prefix(size);
  }
  return text;
}

}  // namespace terrace::observe
