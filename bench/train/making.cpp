// Measures how long one thread takes to make the batches of a step. Training waits for them where that is longer than
// its step times the threads that make them (data/batches_ahead.h).
//
//     bench_train_making CONFIG STEPS [section.key=value...]
#include <fmt/core.h>

#include <string>
#include <vector>

#include "bench/train/making_seconds.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: bench_train_making CONFIG STEPS [section.key=value...]\n");
    return 2;
  }
  const terrace::config::Config config =
      terrace::config::load(argv[1], terrace::models::families(), std::vector<std::string>(argv + 3, argv + argc));
  fmt::print("the batches of a step take {:.1f} ms to make\n",
             1e3 * terrace::bench::making_seconds(config, std::stoll(argv[2])));
  return 0;
}
