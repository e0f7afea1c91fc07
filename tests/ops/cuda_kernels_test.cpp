// Compares the CUDA kernels with the CPU kernels: the same bits for elementwise operations and sums in a fixed order,
// and otherwise an error relative to double precision of at most twice the CPU's. Skipped without a GPU. In
// tests/gpu_emulation the same tests run the kernels' sources on the CPU, in several orders of warps.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <tuple>
#include <vector>

#include "terrace/ops/attention/attention.h"
#include "terrace/ops/kernels.h"
#include "tests/gpu_device.h"

namespace terrace::ops {
namespace {

using TensorList = std::vector<at::Tensor>;
// Runs kernels of a table on tensors on its device, and returns the results.
using Computation = std::function<TensorList(const Kernels&, const TensorList&)>;

using gpu_device::device;
constexpr at::ScalarType types[] = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble};

class CudaKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gpu_device::is_there()) GTEST_SKIP() << "no GPU";
  }

  at::Tensor normal(at::IntArrayRef shape, at::ScalarType type) {
    return at::randn(shape, generator_, at::TensorOptions()).to(type);
  }
  at::Tensor integers(int64_t low, int64_t high, at::IntArrayRef shape) {
    return at::randint(low, high, shape, generator_, at::TensorOptions().dtype(at::kLong));
  }

 private:
  at::Generator generator_ = at::make_generator<at::CPUGeneratorImpl>(11);
};

TensorList on(at::DeviceType type, const TensorList& tensors) {
  TensorList moved;
  for (const at::Tensor& tensor : tensors) moved.push_back(tensor.defined() ? tensor.to(type).clone() : tensor);
  return moved;
}

// The results must not depend on the order in which the warps of a block run.
TensorList on_gpu(const Computation& compute, const TensorList& inputs) {
  TensorList results;
  for (uint64_t order = 0; order < gpu_device::orders; ++order) {
    gpu_device::choose_order(order);
    const TensorList of_order = on(at::kCPU, compute(cuda_kernels(), on(device, inputs)));
    if (results.empty()) results = of_order;
    for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(of_order[i].equal(results[i])) << "order " << order;
  }
  return results;
}

void expect_same_bits(const Computation& compute, const TensorList& inputs, const std::string& what) {
  const TensorList expected = compute(cpu_kernels(), on(at::kCPU, inputs)), got = on_gpu(compute, inputs);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << what << ", result " << i;
}

double largest_error(const at::Tensor& got, const at::Tensor& exact) {
  return got.to(at::kDouble).sub(exact).abs().max().item<double>();
}

void expect_errors_like_the_cpus(const Computation& compute, const TensorList& inputs, const std::string& what) {
  TensorList wide;
  for (const at::Tensor& tensor : inputs) {
    wide.push_back(tensor.defined() && tensor.is_floating_point() ? tensor.to(at::kDouble) : tensor);
  }
  const TensorList exact = compute(cpu_kernels(), on(at::kCPU, wide));
  const TensorList cpu = compute(cpu_kernels(), on(at::kCPU, inputs)), gpu = on_gpu(compute, inputs);
  for (size_t i = 0; i < exact.size(); ++i) {
    // In double the CPU's error is 0 by definition; sums of n terms in another order differ by about sqrt(n) ulps.
    // Other types are computed in fp32, of which the CPU's few results may happen to be nearer to the exact ones than
    // half a rounding.
    const double rounding = inputs.front().scalar_type() == at::kDouble ? 1e-13 : 0x1p-25;
    const double slack = rounding * exact[i].to(at::kDouble).abs().max().item<double>();
    EXPECT_LE(largest_error(gpu[i], exact[i]), 2 * largest_error(cpu[i], exact[i]) + slack) << what << ", result " << i;
  }
}

TEST_F(CudaKernels, AddAndSumInTheCpusOrder) {
  for (at::ScalarType into : types) {
    for (at::ScalarType from : types) {
      for (const auto& [rows, columns] : {std::pair{1, 1}, {77, 130}, {1100, 7}, {0, 5}, {4200, 48}}) {
        const TensorList inputs = {normal({6, columns}, into), normal({rows, columns}, from), integers(0, 6, {rows})};
        const auto compute = [](const Kernels& kernels, const TensorList& t) {
          const at::Tensor sums = t[0][0].clone(), all = t[1].to(t[0].scalar_type()).clone();
          kernels.add_column_sums(sums, t[1]);
          kernels.add_rows(t[0], t[2], t[1]);
          kernels.add(all, t[1]);
          return TensorList{sums, t[0], all};
        };
        expect_same_bits(compute, inputs, fmt::format("{} x {}", rows, columns));
      }
    }
  }
}

TEST_F(CudaKernels, SumsAndExtremesOfSegmentsHaveTheCpusBits) {
  for (at::ScalarType type : types) {
    for (const auto& [elements, rows, columns] : {std::tuple{1, 1, 1}, {400, 9, 131}, {50, 200, 3}, {0, 5, 4}}) {
      const at::Tensor of = integers(0, rows, {elements});
      const at::Tensor order = of.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
      const at::Tensor first = at::searchsorted(of.index_select(0, order), at::arange(rows + 1, of.options()));
      const TensorList inputs = {normal({elements, columns}, type), order, first};
      const auto compute = [rows = rows, columns = columns](const Kernels& kernels, const TensorList& t) {
        TensorList results;
        for (const at::Tensor& places : {t[1], at::Tensor()}) {
          results.push_back(at::empty({rows, columns}, t[0].options()));
          kernels.sum_segments(t[0], places, t[2], results.back());
          for (const bool largest : {true, false}) {
            results.push_back(at::empty({rows, columns}, t[2].options()));
            kernels.extremes_of_segments(t[0], places, t[2], largest, results.back());
          }
        }
        return results;
      };
      expect_same_bits(compute, inputs, fmt::format("{} in {} x {}", elements, rows, columns));
    }
  }
}

TEST_F(CudaKernels, MessagesAreAsAccurateAsTheCpus) {
  for (at::ScalarType type : types) {
    for (const auto& [atoms, pairs, columns] : {std::tuple{7, 20, 1}, {9, 64, 130}}) {
      // Each pair has two edges; the second has the ends exchanged.
      const at::Tensor receivers = integers(0, atoms, {pairs}), senders = integers(0, atoms, {pairs});
      const at::Tensor both = at::cat({receivers, senders}), others = at::cat({senders, receivers});
      const at::Tensor order = both.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
      const at::Tensor first = at::searchsorted(both.index_select(0, order), at::arange(atoms + 1, both.options()));
      const at::Tensor numbers = at::arange(pairs, both.options());
      const at::Tensor opposite = at::cat({at::zeros({pairs}, at::kByte), at::ones({pairs}, at::kByte)});
      const TensorList inputs = {normal({atoms, 1, columns}, type),
                                 normal({pairs, columns}, type),
                                 normal({pairs, 3}, type),
                                 normal({atoms, 3, columns}, type),
                                 first,
                                 order,
                                 others,
                                 at::cat({numbers, numbers}),
                                 opposite,
                                 both,
                                 numbers};
      const auto compute = [atoms = atoms, pairs = pairs, columns = columns](const Kernels& kernels,
                                                                             const TensorList& t) {
        const MessageLists lists{t[4], t[5], t[6], t[7], t[8], -1.0};
        const PairEnds ends{t[9], t[6], t[10], true};
        const at::Tensor x = t[0].view({atoms, columns});
        const auto made = [&](at::IntArrayRef sizes) { return at::empty(sizes, t[0].options()); };
        const TensorList results = {made({atoms, 1, columns}), made({atoms, 3, columns}), made({atoms, columns}),
                                    made({pairs, columns}),    made({pairs, columns}),    made({pairs, 3})};
        kernels.message_sum(t[0], t[1], lists, results[0]);
        kernels.directed_sum(x, t[1], t[2], lists, results[1]);
        kernels.directed_dot(t[3], t[1], t[2], lists, results[2]);
        kernels.message_product(t[3], t[3], ends, results[3]);
        kernels.directed_product(t[3], x, t[2], ends, results[4]);
        kernels.direction_product(t[3], x, t[1], ends, results[5]);
        return results;
      };
      expect_errors_like_the_cpus(compute, inputs, fmt::format("{} {} pairs x {}", at::toString(type), pairs, columns));
    }
  }
}

TEST_F(CudaKernels, NormAndItsGradientsAreAsAccurateAsTheCpus) {
  for (at::ScalarType type : types) {
    for (const bool centered : {true, false}) {
      // Rows in registers of one and of two packs a thread, rows that are no whole packs, and one that is too wide.
      for (const auto& [rows, columns] : {std::pair{1, 1}, {70, 300}, {33, 1000}, {40, 768}, {3, 4608}, {2, 17408}}) {
        const TensorList inputs = {normal({rows, columns}, type).add(0.5), normal({columns}, type),
                                   centered ? normal({columns}, type) : at::Tensor(), normal({rows, columns}, type)};
        const auto compute = [centered](const Kernels& kernels, const TensorList& t) {
          const auto statistics = t[0].options().dtype(t[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
          const NormShape shape{.centered = centered, .epsilon = 1e-2, .weight_offset = centered ? 0.0 : 1.0};
          const at::Tensor y = at::empty_like(t[0]), dx = at::empty_like(t[0]);
          const at::Tensor mean = centered ? at::empty({t[0].size(0)}, statistics) : at::Tensor();
          const at::Tensor inverse = at::empty({t[0].size(0)}, statistics);
          const at::Tensor weights = at::ones(t[1].sizes(), statistics);
          const at::Tensor biases = centered ? at::ones(t[1].sizes(), statistics) : at::Tensor();
          const at::Tensor sum = at::empty_like(t[0]);
          kernels.norm(shape, {t[0], t[3], t[1], t[2], sum, y, mean, inverse});
          kernels.norm_backward(shape, {t[3], t[0], sum, t[1], mean, inverse, dx, weights, biases});
          TensorList results = {sum, y, inverse, dx, weights};
          if (centered) results.insert(results.end(), {mean, biases});
          return results;
        };
        expect_errors_like_the_cpus(compute, inputs, fmt::format("{} {} x {}", at::toString(type), rows, columns));
      }
    }
  }
}

TEST_F(CudaKernels, SwigluAndItsGradientAreAsAccurateAsTheCpus) {
  for (at::ScalarType type : types) {
    const auto compute = [](const Kernels& kernels, const TensorList& t) {
      const at::Tensor y = at::empty_like(t[1]), dx = at::empty_like(t[0]);
      kernels.swiglu(t[0], y);
      kernels.swiglu_backward(t[1], t[0], dx);
      return TensorList{y, dx};
    };
    expect_errors_like_the_cpus(compute, {normal({37, 66}, type).mul(4.0), normal({37, 33}, type)}, at::toString(type));
  }
}

TEST_F(CudaKernels, RotateBothWays) {
  const RotaryTable table = rotary_table(40, 12, 10000.0, at::kCPU);
  for (at::ScalarType type : types) {
    for (const bool positions : {false, true}) {
      const TensorList inputs = {normal({2, 9, 3, 4, 12}, type), table.cosines, table.sines,
                                 positions ? integers(0, 40, {2, 9}) : at::Tensor()};
      const auto compute = [](const Kernels& kernels, const TensorList& t) {
        const at::Tensor queries = t[0].narrow(3, 0, 2), out = at::empty(queries.sizes(), queries.options());
        kernels.rotate(queries, out, t[1], t[2], t[3], 1);
        kernels.rotate(out, t[0].narrow(3, 1, 2), t[1], t[2], t[3], -1);
        return TensorList{out, t[0]};
      };
      expect_same_bits(compute, inputs, at::toString(type));
    }
  }
}

TEST_F(CudaKernels, CopyHeadsOfAnyStrides) {
  for (at::ScalarType type : types) {
    for (const int64_t columns : {12, 16}) {
      const TensorList inputs = {normal({2, 3, 9, 4, columns}, type), normal({2, 9, 3, 4, columns}, type)};
      const auto compute = [](const Kernels& kernels, const TensorList& t) {
        kernels.copy_heads(t[0].transpose(1, 2).narrow(3, 0, 2), t[1].narrow(3, 2, 2));
        return TensorList{t[1]};
      };
      expect_same_bits(compute, inputs, at::toString(type));
    }
  }
}

TEST_F(CudaKernels, DrawTheCpusDropoutMask) {
  for (at::ScalarType type : types) {
    for (const int64_t columns : {1, 100, 128, 777}) {
      for (const bool residual : {false, true}) {
        const TensorList inputs = {normal({3, 2, 5, columns}, type),
                                   residual ? normal({3, 2, 5, columns}, type) : at::Tensor(),
                                   integers(0, int64_t{1} << 40, {3})};
        const auto compute = [](const Kernels& kernels, const TensorList& t) {
          const at::Tensor out = at::empty_like(t[0]);
          kernels.dropout({.key = {7, 9}, .samples = t[2], .threshold = 20000}, t[0], t[1], out);
          return TensorList{out};
        };
        expect_same_bits(compute, inputs, fmt::format("{} {}", at::toString(type), columns));
      }
    }
  }
}

// Planes whose rows lie between those of other planes, in place.
TEST_F(CudaKernels, DropoutMaskOfHeadsIsTheCpus) {
  for (at::ScalarType type : types) {
    const TensorList inputs = {normal({3, 5, 2, 130}, type), integers(0, int64_t{1} << 40, {3})};
    const auto compute = [](const Kernels& kernels, const TensorList& t) {
      const at::Tensor planes = t[0].transpose(1, 2);
      kernels.dropout({.key = {7, 9}, .samples = t[1], .threshold = 20000}, planes, {}, planes);
      return TensorList{t[0]};
    };
    expect_same_bits(compute, inputs, at::toString(type));
  }
}

TEST_F(CudaKernels, CrossEntropyAndItsGradientAreAsAccurateAsTheCpus) {
  for (at::ScalarType type : types) {
    for (const auto& [vocabulary, columns] :
         {std::pair{1, 1}, {500, 512}, {1024, 1024}, {40000, 40001}, {40001, 40064}}) {
      for (const double scale : {0.0, 0.25}) {
        const at::Tensor targets = integers(-1, vocabulary, {5});
        targets[1].fill_(-1);
        targets[2].fill_(vocabulary - 1);
        const int64_t counted = vocabulary;
        const auto compute = [counted, scale](const Kernels& kernels, const TensorList& t) {
          const at::Tensor losses = at::empty({5}, t[0].options().dtype(at::kDouble));
          kernels.cross_entropy(t[0], t[1], counted, scale, losses);
          return TensorList{losses, t[0]};
        };
        expect_errors_like_the_cpus(compute, {normal({5, columns}, type).mul(3.0), targets},
                                    fmt::format("{} {}", at::toString(type), vocabulary));
      }
    }
  }
}

// Sizes with short blocks and odd payloads; one block has a NaN, one an infinity, and one is subnormal.
TEST_F(CudaKernels, EncodeAndDecodeBlocksToTheCpusBits) {
  for (const BlockCode code : {BlockCode::int8, BlockCode::int4, BlockCode::fp8}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const auto& [parts, size] : {std::pair{1, 1}, {3, 259}, {2, 1280}}) {
        for (const bool random : {false, true}) {
          const at::Tensor values = normal({parts * size}, type);
          values[0].fill_(std::numeric_limits<float>::quiet_NaN());
          if (size > 1000) {
            values[300].fill_(std::numeric_limits<float>::infinity());
            values.narrow(0, 512, 256).mul_(1e-39);
          }
          const BlockLayout layout{code, parts, size};
          BlockCoding coding{.code = code, .parts = parts};
          if (random) coding.draw = RoundingDraw{.key = {7, 9}, .words = {1, 2, 3}};
          const auto compute = [&](const Kernels& kernels, const TensorList& t) {
            const at::Tensor payloads = at::empty({parts * layout.payload_bytes()}, t[0].options().dtype(at::kByte));
            const at::Tensor decoded = at::empty_like(t[0]), sums = t[1].clone();
            kernels.encode_blocks(coding, t[0], payloads);
            kernels.decode_blocks(coding, payloads, decoded);
            BlockCoding adding = coding;
            adding.adds = true;
            kernels.decode_blocks(adding, payloads, sums);
            // Which of its many forms a NaN has is left to the device; zeros have the sign that they have.
            const auto bits = [](const at::Tensor& tensor) {
              return tensor.masked_fill(tensor.isnan(), 0x1p100)
                  .view(tensor.scalar_type() == at::kFloat ? at::kInt : at::kShort);
            };
            return TensorList{payloads, decoded.isnan(), bits(decoded), sums.isnan(), bits(sums)};
          };
          expect_same_bits(compute, {values, normal({parts * size}, at::kFloat)},
                           fmt::format("{} of {} values", parts, size));
        }
      }
    }
  }
}

}  // namespace
}  // namespace terrace::ops
