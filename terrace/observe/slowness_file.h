// The record of ranks and links that were named as slow: slow.jsonl in a run's folder, with a line for each rank or
// link when it becomes slow and when it no longer is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace terrace::observe {

struct Slowness {
  int64_t step = 0;  // after which it was named
  std::string what;  // "rank", "link", or "steps" where steps take longer and neither explains it
  bool ended = false;
  int64_t rank = -1;  // of a link: the sender
  int64_t to = -1;    // of a link: the receiver
  std::string place = {};
  double excess = 0;  // 0.24: 1.24 times as long as it should take
  std::string text = {};

  bool operator==(const Slowness&) const = default;
};

inline constexpr const char* slowness_file = "slow.jsonl";

// Appends a line. Throws std::system_error.
void append_slowness(const std::filesystem::path& folder, const Slowness& slowness);
// In the order of the lines; lines that cannot be read are left out, and a run without the file has none.
std::vector<Slowness> read_slowness(const std::filesystem::path& folder);

// A sentence for what was slow in a run: "rank 5 (node a, cores 0-7) from step 120 to step 180, 24% slower".
std::vector<std::string> texts_of(const std::vector<Slowness>& all);

}  // namespace terrace::observe
