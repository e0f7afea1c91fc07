// Divides independent pieces of work among threads, as many as there are cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace terrace {

// Calls body(i) once for every i below `count`, from several threads at a time, and returns when all have returned.
// `body` must not throw.
template <typename Body>
void on_all_cores(size_t count, const Body& body) {
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  const size_t most = std::max(1U, std::thread::hardware_concurrency());
  for (size_t i = 0; i < std::min(count, most); ++i) {
    threads.emplace_back([&] {
      for (size_t item = next++; item < count; item = next++) body(item);
    });
  }
}

}  // namespace terrace
