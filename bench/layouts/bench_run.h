// Corpus and configuration for benchmarks of layouts, in a folder that lives as long as the benchmark.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bench/random_corpus.h"
#include "terrace/config/config.h"
#include "terrace/models/families.h"

namespace terrace::bench {

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / fmt::format("terrace_bench_{}", getpid())) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string at(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// A GPT on random tokens on the CPU. Each key has the value that was said last.
inline config::Config config_of(const Folder& folder, int64_t vocabulary, const std::vector<std::string>& overrides) {
  if (!std::filesystem::exists(folder.at("corpus.bin"))) write_corpus(folder.at("corpus"), vocabulary);
  std::map<std::string, std::string> last = {{"model.vocabulary", std::to_string(vocabulary)},
                                             {"data.train", "[\"" + folder.at("corpus") + "\"]"},
                                             {"data.validation_share", "0.0"},
                                             {"train.steps", "100000"},
                                             {"train.device", "cpu"},
                                             {"optimizer.learning_rate", "1e-4"},
                                             {"checkpoint.folder", folder.at("run")}};
  for (const std::string& override : overrides) {
    const size_t equals = std::min(override.find('='), override.size());
    last[override.substr(0, equals)] = override.substr(std::min(equals + 1, override.size()));
  }
  std::vector<std::string> all;
  for (const auto& [key, value] : last) all.push_back(fmt::format("{}={}", key, value));
  return config::parse("", "bench", models::families(), all);
}

struct Quartiles {
  double low, middle, high;
};

inline Quartiles quartiles(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return {values[n / 4], values[n / 2], values[n - 1 - n / 4]};
}

}  // namespace terrace::bench
