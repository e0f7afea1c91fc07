// Draws a loss curve as text for the terminal.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace terrace::observe {

// Points (x, y) in any order; points with a number that is not finite are left out.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

// A horizontal line, such as a baseline.
struct ReferenceLine {
  std::string name;
  double value;
};

struct Chart {
  std::vector<Series> series = {};  // the first is drawn as a line, the others as marks at their points
  std::vector<ReferenceLine> levels = {};
  std::string x_name = "step";
  int width = 72;   // columns in all, at least 24
  int height = 18;  // rows in all, at least 6
};

// Returns `height` UTF-8 lines that end with '\n', none wider than `width`: the plot in Braille dots (2 x 4 dots a
// character; points of the line in the same column of dots are averaged) with both axes, and a legend that names marks,
// levels and x and is truncated where it is too long. Without points it returns one line that says so.
std::string draw(const Chart& chart);

// The text with an ASCII character in place of each sign that draw() draws with, for terminals that do not show UTF-8:
// a character of dots is "'", "." or ":", by the half that has dots. Other characters stay.
std::string in_ascii(const std::string& drawn);

}  // namespace terrace::observe
