// Kernels on tensors of more than 2^31 elements: only their last blocks run, on memory of which the system provides the
// pages that are touched. An index that overflows 32 bits reads or writes elsewhere.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <stdexcept>

#include "terrace/ops/kernels.h"
#include "terrace/optim/kernels.h"
#include "tests/gpu_emulation/gpu_emulation.h"

namespace terrace {
namespace {

constexpr int64_t columns = 4096;
constexpr int64_t rows = (int64_t{1} << 31) / columns + 3;

// Zeros, of which only touched pages take memory.
at::Tensor untouched(at::IntArrayRef shape, at::ScalarType type) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  const auto bytes = static_cast<size_t>(elements) * c10::elementSize(type);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no address space");
  return at::from_blob(
      memory, shape, [bytes](void* used) { munmap(used, bytes); }, at::TensorOptions().dtype(type));
}

class LargeTensors : public testing::Test {
 protected:
  void SetUp() override { gpu_emulation::options().last_blocks = 2; }
  void TearDown() override { gpu_emulation::options().last_blocks = -1; }
};

// The last elements, which lie in whole blocks of 256 elements.
constexpr int64_t tail = 300;

TEST_F(LargeTensors, AddElements) {
  const at::Tensor into = untouched({rows * columns}, at::kHalf), from = untouched({rows * columns}, at::kHalf);
  const int64_t first = rows * columns - tail;
  into.narrow(0, first, tail).fill_(1);
  from.narrow(0, first, tail).fill_(2);
  ops::cuda_kernels().add(into, from);
  EXPECT_TRUE(into.narrow(0, first, tail).eq(3).all().item<bool>());
}

TEST_F(LargeTensors, AddColumnSums) {
  const at::Tensor into = at::zeros({columns}), from = untouched({rows, columns}, at::kHalf);
  from[rows - 1].fill_(2);
  from[rows - 2].fill_(1);
  gpu_emulation::options().last_blocks = 128;  // those of the rows, and all of the second kernel
  ops::cuda_kernels().add_column_sums(into, from);
  EXPECT_TRUE(into.eq(3).all().item<bool>());
}

TEST_F(LargeTensors, AddRowsToALargeTable) {
  const at::Tensor into = untouched({rows, columns}, at::kHalf);
  const at::Tensor from = at::ones({2, columns}, at::kHalf);
  ops::cuda_kernels().add_rows(into, at::full({2}, rows - 1, at::kLong), from);
  EXPECT_TRUE(into[rows - 1].eq(2).all().item<bool>());
}

TEST_F(LargeTensors, NormAndItsGradient) {
  const at::Tensor x = untouched({rows, columns}, at::kHalf), y = untouched({rows, columns}, at::kHalf),
                   dx = untouched({rows, columns}, at::kHalf), weight = at::ones({columns}, at::kHalf),
                   inverse = untouched({rows}, at::kFloat);
  x[rows - 1].fill_(2);
  gpu_emulation::options().last_blocks = 1;
  ops::cuda_kernels().norm({.centered = false, .epsilon = 0}, {x, {}, weight, {}, {}, y, {}, inverse});
  EXPECT_TRUE(y[rows - 1].eq(1).all().item<bool>());
  EXPECT_EQ(inverse[rows - 1].item<float>(), 0.5F);
  const at::Tensor dy = y;
  const at::Tensor weight_sums = at::zeros({columns});
  gpu_emulation::options().last_blocks = 128;
  ops::cuda_kernels().norm_backward({.centered = false, .epsilon = 0},
                                    {dy, {}, x, weight, {}, inverse, dx, weight_sums, {}});
  // A gradient in the direction of the row itself vanishes.
  EXPECT_TRUE(dx[rows - 1].eq(0).all().item<bool>());
  EXPECT_TRUE(weight_sums.eq(1).all().item<bool>());
}

TEST_F(LargeTensors, Swiglu) {
  const int64_t pairs = rows * columns / 2;
  const at::Tensor x = untouched({pairs, 2}, at::kHalf), y = untouched({pairs, 1}, at::kHalf);
  x.narrow(0, pairs - tail, tail).fill_(1);
  ops::cuda_kernels().swiglu(x, y);
  const at::Tensor dx = untouched({pairs, 2}, at::kHalf);
  ops::cuda_kernels().swiglu_backward(y, x, dx);
  EXPECT_TRUE(y.narrow(0, pairs - tail, tail).eq(y[pairs - 1]).all().item<bool>());
  EXPECT_NEAR(y[pairs - 1].item<float>(), 0.7311, 1e-3);
  EXPECT_TRUE(dx.narrow(0, pairs - tail, tail).gt(0).all().item<bool>());
}

TEST_F(LargeTensors, Rotate) {
  const int64_t tokens = rows * columns / 128;
  const at::Tensor in = untouched({1, tokens, 1, 1, 128}, at::kHalf),
                   out = untouched({1, tokens, 1, 1, 128}, at::kHalf);
  const at::Tensor cosines = untouched({tokens, 64}, at::kFloat), sines = untouched({tokens, 64}, at::kFloat);
  in[0][tokens - 1].fill_(1);
  sines[tokens - 1].fill_(1);  // a quarter turn
  ops::cuda_kernels().rotate(in, out, cosines, sines, {}, 1);
  EXPECT_TRUE(out[0][tokens - 1][0][0].narrow(0, 0, 64).eq(-1).all().item<bool>());
  EXPECT_TRUE(out[0][tokens - 1][0][0].narrow(0, 64, 64).eq(1).all().item<bool>());
}

TEST_F(LargeTensors, Dropout) {
  const at::Tensor x = untouched({1, 1, rows, columns}, at::kHalf), out = untouched({1, 1, rows, columns}, at::kHalf);
  x[0][0][rows - 1].fill_(1);
  ops::cuda_kernels().dropout({.key = {7, 9}, .samples = at::zeros({1}, at::kLong), .threshold = 32768}, x, {}, out);
  const at::Tensor last = out[0][0][rows - 1];
  EXPECT_TRUE(last.eq(0).logical_or(last.eq(2)).all().item<bool>());
  EXPECT_NEAR(last.to(at::kFloat).mean().item<float>(), 1, 0.1);
}

TEST_F(LargeTensors, CrossEntropy) {
  const at::Tensor logits = untouched({rows, columns}, at::kHalf), losses = untouched({rows}, at::kDouble);
  const at::Tensor targets = at::full({rows}, 5, at::kLong);
  ops::cuda_kernels().cross_entropy(logits, targets, columns, 1.0, losses);
  EXPECT_NEAR(losses[rows - 1].item<double>(), std::log(columns), 1e-9);
  EXPECT_EQ(logits[rows - 1][5].item<float>(), -1.0F);  // rounded
  EXPECT_EQ(logits[rows - 1][columns - 1].item<float>(), 1.0F / 4096);
}

// A block passes over the elements in strides of the whole grid: with a whole number of strides, the last block ends at
// the last element.
TEST_F(LargeTensors, Squares) {
  constexpr int64_t stride = optim::square_rows * 16 * optim::norm_piece,
                    size = (int64_t{1} << 31) / stride * stride + stride;
  const at::Tensor gradient = untouched({size}, at::kHalf);
  gradient.narrow(0, size - 1024, 1024).fill_(2);
  gpu_emulation::options().last_blocks = 1;
  at::Tensor sums = at::zeros({optim::square_rows, optim::exact_words}, at::kLong);
  optim::add_squares_cuda(gradient, optim::norm_piece, sums);
  optim::ExactSum last = {};
  std::copy_n(sums[optim::square_rows - 1].const_data_ptr<int64_t>(), last.size(), last.begin());
  EXPECT_EQ(optim::value_of(last), 4096);
}

}  // namespace
}  // namespace terrace
