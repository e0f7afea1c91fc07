// Times one call of what a benchmark measures.
#pragma once

#include <chrono>

template <typename Work>
double seconds(const Work& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}
