// Times both kinds of kernels on a few shapes.
#include "terrace/measure/faster_products.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "terrace/ops/products/products.h"

namespace terrace::measure {
namespace {

// Torch's products are chosen if ours take more than this times as long. On a busy machine the measured ratio is off by
// 10% at times, and the choice should be the same in every run on a machine.
constexpr double clearly = 1.15;

// A product C [m, n] = A [m, k] B [k, n]. k is that of weights of the class. m or n may be smaller than theirs, since
// that dimension only repeats the same work.
struct Size {
  int64_t m, n, k;
};

// Sizes of the products by weight class: forward, gradient of the input and of the weight. Each has about 1 GFLOP or
// less, which takes 10 ms in fp32 at 100 GFLOP/s.
constexpr std::array<std::array<Size, ops::named_products.size()>, ops::weight_classes.size()> sizes{{
    {{{1024, 256, 256}, {1024, 256, 256}, {256, 256, 1024}}},
    {{{512, 1024, 1024}, {512, 1024, 1024}, {1024, 1024, 512}}},
    {{{256, 512, 4096}, {256, 512, 4096}, {2048, 512, 512}}},
    {{{128, 8192, 512}, {128, 256, 16384}, {8192, 512, 128}}},
}};

// Computes the first `rows` rows of C.
using Product = std::function<void(int64_t rows, ops::Products products)>;

at::Tensor filled(int64_t rows, int64_t columns, at::ScalarType type) {
  return at::full({rows, columns}, 0.01, at::TensorOptions().dtype(type));
}

Product forward(const Size& size, at::ScalarType type) {
  return [x = filled(size.m, size.k, type), w = filled(size.n, size.k, type)](int64_t rows, ops::Products products) {
    ops::times_transposed(x.narrow(0, 0, rows), w, {}, products);
  };
}

Product input_gradient(const Size& size, at::ScalarType type) {
  return [dy = filled(size.m, size.k, type), w = filled(size.k, size.n, type)](int64_t rows, ops::Products products) {
    ops::times(dy.narrow(0, 0, rows), w, products);
  };
}

Product weight_gradient(const Size& size, at::ScalarType type) {
  return [dy = filled(size.k, size.m, type), x = filled(size.k, size.n, type),
          sum = filled(size.m, size.n, at::kFloat)](int64_t rows, ops::Products products) {
    ops::add_outer_product(sum.narrow(0, 0, rows), dy.narrow(1, 0, rows), x, products);
  };
}

// Processor seconds of the fastest round, and of all rounds together.
struct Times {
  double own = std::numeric_limits<double>::infinity(), torch = own, spent = 0;
};

void add_round(const Product& product, int64_t rows, const Clock& clock, Times& times) {
  const auto seconds = [&](ops::Products products) {
    const double start = clock();
    product(rows, products);
    const double taken = clock() - start;
    times.spent += taken;
    return taken;
  };
  times.torch = std::min(times.torch, seconds(ops::Products::torch));
  times.own = std::min(times.own, seconds(ops::Products::own));
}

// A few rows of C are this part of all rows.
constexpr int64_t part = 32;

// Whether a few rows of C show that torch has no fast kernels for the type, as for fp16 on many processors, so that the
// whole product may take a second. Ours pack as much of B for these rows as for all.
bool torch_is_slow(const Times& of_part) {
  constexpr double slow_seconds = 0.3;
  return of_part.torch * part > slow_seconds && of_part.torch > 2 * of_part.own;
}

// Whether one kind is faster by far, or there were as many rounds as are useful or take a tenth of a second. The first
// round also fills caches.
bool is_decided(const Times& times, int rounds) {
  constexpr int least_rounds = 3, most_rounds = 16;
  constexpr double most_seconds = 0.1;
  const double by_far = rounds < least_rounds ? 4 : 1.5, ratio = times.own / times.torch;
  if (ratio > by_far || ratio < 1 / by_far) return true;
  return rounds >= most_rounds || (rounds >= least_rounds && times.spent > most_seconds);
}

Times times_of(const Product& product, int64_t rows, const Clock& clock) {
  Times of_part;
  for (int round = 0; round < 2; ++round) add_round(product, rows / part, clock, of_part);
  if (torch_is_slow(of_part)) return {.own = of_part.own * part, .torch = of_part.torch * part};
  Times times;
  int rounds = 0;
  do {
    add_round(product, rows, clock, times);
  } while (!is_decided(times, ++rounds));
  return times;
}

}  // namespace

ops::Products MeasuredProduct::faster() const {
  return torch > clearly * own ? ops::Products::torch : ops::Products::own;
}

std::vector<MeasuredProduct> measured_products(at::ScalarType type, const std::set<ops::WeightClass>& classes,
                                               const Clock& clock) {
  if (!ops::own_products(filled(1, 1, type), ops::Products::own)) return {};
  const at::NoGradGuard no_grad;
  const OneThread one;
  constexpr std::array products{&forward, &input_gradient, &weight_gradient};  // as ops::named_products
  std::vector<MeasuredProduct> all;
  for (const ops::WeightClass weights : classes) {
    const auto& of_class = sizes[static_cast<size_t>(weights)];
    for (size_t i = 0; i < products.size(); ++i) {
      const Size& size = of_class[i];
      const Times times = times_of(products[i](size, type), size.m, clock);
      const double flops = 2.0 * static_cast<double>(size.m * size.n * size.k);
      all.push_back({weights, ops::named_products[i], flops / times.own, flops / times.torch});
    }
  }
  return all;
}

ops::ProductsByClass faster_products(const at::Device& device, at::ScalarType type,
                                     const std::set<ops::WeightClass>& classes) {
  if (!device.is_cpu() || !ops::own_products(filled(1, 1, type), ops::Products::own)) {
    return ops::ProductsByClass::all(ops::Products::torch);
  }
  ops::ProductsByClass by_class;
  for (const MeasuredProduct& result : measured_products(type, classes)) {
    by_class[result.weights].*result.product.choice = result.faster();
  }
  return by_class;
}

}  // namespace terrace::measure
