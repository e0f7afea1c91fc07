// Keeps every core of the machine busy while a test measures.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace terrace::measure {

// Runs several busy threads for each core, which only take its time.
class BusyMachine {
 public:
  BusyMachine() {
    for (unsigned i = 0; i < 4 * std::max(1U, std::thread::hardware_concurrency()); ++i) {
      others_.emplace_back([this] {
        while (!over_) {
        }
      });
    }
  }
  ~BusyMachine() {
    over_ = true;
    for (std::thread& other : others_) other.join();
  }

 private:
  std::atomic<bool> over_ = false;
  std::vector<std::thread> others_;
};

}  // namespace terrace::measure
