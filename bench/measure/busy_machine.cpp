// Prints how far other work on the machine changes what terrace train measures at its start: the rate of a product, and
// the choice between our products and torch's. By the clock a thread would get a fifth of a core or less; in processor
// time the rate should fall by less than half, because caches are shared, and the choice should stay.
#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "terrace/measure/faster_products.h"
#include "terrace/measure/matmul_rate.h"
#include "terrace/ops/products/products.h"

namespace {

using namespace terrace;

// Several busy threads for each core, which only take its time.
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

}  // namespace

int main() {
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    const double alone = measure::matmul_rate(at::kCPU, at::kFloat, 0.5).flops_per_second;
    const BusyMachine busy;
    const double again = measure::matmul_rate(at::kCPU, at::kFloat, 0.5).flops_per_second;
    fmt::print("rate by {} thread(s): {:.1f} GFLOP/s alone, {:.2f} of it on the busy machine\n", threads, alone / 1e9,
               again / alone);
  }
  int others = 0;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto alone = measure::measured_products(type, {ops::WeightClass::medium});
    const BusyMachine busy;
    const auto again = measure::measured_products(type, {ops::WeightClass::medium});
    for (size_t i = 0; i < alone.size(); ++i) {
      const bool same = alone[i].faster() == again[i].faster();
      others += same ? 0 : 1;
      fmt::print("{} {}: ours / torch's {:.2f} alone, {:.2f} on the busy machine{}\n", at::toString(type),
                 alone[i].product.name, alone[i].own / alone[i].torch, again[i].own / again[i].torch,
                 same ? "" : "  OTHER CHOICE");
    }
  }
  fmt::print("{} other choices\n", others);
}
