// The chart's shape, scales and marks, read back from its characters.
#include "terrace/observe/curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace terrace::observe {
namespace {

using Points = std::vector<std::pair<double, double>>;

// The lines of the chart as characters, whatever their number of bytes.
std::vector<std::vector<std::string>> characters(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.emplace_back();
    for (const char c : line) {
      if ((c & 0xC0) != 0x80) lines.back().emplace_back();
      lines.back().back() += c;
    }
  }
  return lines;
}

std::string line_text(const std::string& chart, size_t line) {
  std::string text;
  const auto lines = characters(chart);
  for (const std::string& character : lines.at(line)) text += character;
  return text;
}

Points falling(int count) {
  Points points;
  for (int i = 1; i <= count; ++i) points.emplace_back(i, 4 + 5 / std::sqrt(i));
  return points;
}

TEST(Curve, KeepsToTheRequestedSize) {
  for (const int width : {24, 25, 40, 72, 101, 200}) {
    for (const int height : {6, 7, 18, 41}) {
      Chart chart{.series = {{"train", falling(500)}, {"validation", {{100, 5}, {400, 4.4}}}},
                  .levels = {{"unigram", 7.25}},
                  .width = width,
                  .height = height};
      const auto lines = characters(draw(chart));
      ASSERT_EQ(lines.size(), static_cast<size_t>(height)) << width;
      for (const auto& line : lines) EXPECT_LE(line.size(), static_cast<size_t>(width)) << height;
    }
  }
}

// Worked out by hand: from (0, 0) to (1, 1) with one column of labels and one of the axis, the plot is 22
// characters of 44 dots, 3 rows of 12 dots; the dots go from the lower left to the upper right corner.
TEST(Curve, DrawsARisingLineFromCornerToCorner) {
  const std::string text = draw({.series = {{"y", {{0, 0}, {1, 1}}}}, .x_name = "", .width = 24, .height = 6});
  const auto lines = characters(text);
  EXPECT_EQ(lines[0][0], "1");
  EXPECT_EQ(lines[0][1], "┤");
  EXPECT_EQ(lines[0].size(), 24u);
  EXPECT_EQ(lines[1][1], "│");
  EXPECT_EQ(lines[2][0], "0");
  // Dots of 44 columns share 12 rows, so about 4 of a row: the first character has both dots in its lowest row.
  EXPECT_EQ(lines[2][2], "⣀");
  EXPECT_EQ(lines[0][23], "⠉");
  EXPECT_EQ(lines[0][2], " ");
  EXPECT_EQ(line_text(text, 3).substr(0, 7), " └┬");  // a blank and two signs of three bytes
}

TEST(Curve, AFallingCurveFalls) {
  const auto lines = characters(draw({.series = {{"loss", falling(300)}}, .width = 60, .height = 20}));
  int last_row = 0;
  for (size_t column = 6; column < 60; ++column) {
    for (int row = 0; row < 17; ++row) {
      const auto& line = lines[row];
      if (column >= line.size() || line[column] == " ") continue;
      EXPECT_GE(row, last_row) << "column " << column;
      last_row = row;
      break;
    }
  }
  EXPECT_GE(last_row, 12);
}

TEST(Curve, TicksAreRoundNumbersThatCoverTheValues) {
  const std::string text = draw({.series = {{"loss", {{0, 3.3}, {1000, 8.9}}}}, .width = 60, .height = 13});
  // 5.6 over at most 5 ticks: steps of 2, from 2 to 10.
  std::vector<std::string> labels;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const size_t axis = line.find("┤");
    if (axis != std::string::npos) labels.push_back(line.substr(0, axis));
  }
  EXPECT_EQ(labels, (std::vector<std::string>{"10", " 8", " 6", " 4", " 2"}));
  const std::string numbers = line_text(text, 11);
  for (const char* number : {" 0 ", " 200 ", " 400 ", " 600 ", " 800 "}) {
    EXPECT_NE(numbers.find(number), std::string::npos) << number << " in" << numbers;
  }
}

TEST(Curve, MarksOtherSeriesAndLevelsAndNamesThem) {
  const std::string text = draw({.series = {{"train", falling(100)}, {"validation", {{50, 6}}}, {"other", {{70, 6}}}},
                                 .levels = {{"unigram", 7.123}}});
  const auto count = [&](const std::string& sign) {
    size_t found = 0;
    for (size_t at = text.find(sign); at != std::string::npos; at = text.find(sign, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("●"), 2u);  // once in the plot, once in the legend
  EXPECT_EQ(count("◆"), 2u);
  EXPECT_GT(count("┄"), 50u);
  EXPECT_NE(text.find("⠶ train   ● validation   ◆ other   ┄ unigram 7.123   → step\n"), std::string::npos);
}

TEST(Curve, ALevelBeyondTheSeriesIsInsideTheAxis) {
  const std::string text = draw({.series = {{"loss", {{1, 2}, {2, 3}}}}, .levels = {{"baseline", 9}}});
  EXPECT_NE(line_text(text, 0).find("┄"), std::string::npos);
}

TEST(Curve, SurvivesWhatCannotBeDrawn) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(draw({}), "no finite value to draw\n");
  EXPECT_EQ(draw({.series = {{"loss", {{1, nan}, {nan, 1}, {2, infinity}}}}}), "no finite value to draw\n");
  EXPECT_EQ(draw({.series = {{"loss", {{1, nan}, {2, 5}, {3, -infinity}}}}}), draw({.series = {{"loss", {{2, 5}}}}}));
  for (const Points& points : std::vector<Points>{{{0, 0}},
                                                  {{5, 1e-310}, {5, 0}},
                                                  {{1, 1e300}, {2, -1e300}},
                                                  {{1, 1}, {1e15, 1 + 1e-15}},
                                                  {{1, 1e16}, {2, 1e16 + 2}},
                                                  {{-3, -2}, {-1, -8}}}) {
    const auto lines =
        characters(draw({.series = {{"loss", points}}, .levels = {{"none", nan}}, .width = 1, .height = 1}));
    EXPECT_EQ(lines.size(), 6u);
    for (const auto& line : lines) EXPECT_LE(line.size(), 24u);
  }
}

TEST(Curve, HasAsManyCharactersInAscii) {
  const Chart chart{.series = {{"train", falling(500)}, {"held out", {{100, 5}, {400, 4.4}}}, {"third", {{250, 6}}}},
                    .levels = {{"unigram", 7.25}}};
  const std::string drawn = draw(chart), ascii = in_ascii(drawn);
  EXPECT_TRUE(std::ranges::all_of(ascii, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); })) << ascii;
  const auto before = characters(drawn), after = characters(ascii);
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i].size(), before[i].size());
  EXPECT_NE(ascii.find("o held out   # third"), std::string::npos) << ascii;
  // All dots, none but the upper two rows, none but the lower two, and a dot in each; other characters stay.
  EXPECT_EQ(in_ascii("⣿⠛⣤⢁ é漢"), ":'.: é漢");
}

}  // namespace
}  // namespace terrace::observe
