// Reports all problems of a configuration as one error, in the order of the file.
#pragma once

#include <compare>
#include <string>
#include <vector>

namespace terrace::config {

// The place of a problem: "runs/a.toml:12:9", "runs/a.toml", or "--set model.heads=7".
struct Location {
  enum class Source { line, file, override_ };
  Source source = Source::file;
  int line = 0;
  int column = 0;
  std::string text;

  std::strong_ordering operator<=>(const Location&) const = default;
};

struct Problem {
  Location place;
  std::string text;
};

// Throws one UserError with every problem, in the order of their places; returns if there are none.
void report(std::vector<Problem> problems, const std::string& file_name);

}  // namespace terrace::config
