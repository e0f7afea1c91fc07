// A study: what SPACE.toml says, which is a space and how it is searched. docs/search.md lists the keys of the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/search/space.h"

namespace terrace::search {

enum class Method { bayesian, random, exhaustive };
// From one of these words.
Method method_of(const std::string& word);

struct StudySettings {
  std::string evaluator = "simulate";
  std::string objective;  // a figure of the evaluator
  bool minimizes = false;
  std::string config;  // the training configuration that is varied
  std::string machine = "laptop", software = "terrace";
  std::string devices;  // an expression; also the name of its value in other expressions
  Method method = Method::bayesian;
  int64_t trials = 0;  // 0: 100, or all points of an exhaustive search
  int64_t parallel = 4;
  uint64_t seed = 1;
};

// What a trial measures or predicts.
struct Figure {
  std::string name;
  bool smaller_is_better = false;
};

struct Study {
  StudySettings settings;
  Space space;  // "devices" is one of its parameters or derived numbers
  std::vector<Figure> figures;
};

// Throws one UserError with every problem of the file, each with its line and a valid alternative. A space without a
// point that holds all constraints is a problem too. The configuration that the file names is read.
Study parse_study(const std::string& toml, const std::string& file_name);
Study load_study(const std::string& path);

}  // namespace terrace::search
