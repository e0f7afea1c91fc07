// Tests the operation recorder with FLOPs and bytes worked out by hand.
#include "terrace/profile/operation_recorder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "terrace/profile/record.h"
#include "tests/profile/sum_of.h"

namespace terrace::profile {
namespace {

// Records all operations that `action` runs, as one step.
template <typename Action>
observe::OperationTable record(const Action& action) {
  OperationRecorder recorder(at::kCPU);
  {
    const profile::PhaseRecord step(observe::step_phase, 1);
    action();
  }
  return observe::count_operations(recorder.finish());
}

TEST(OperationRecorder, LeavesOperationsOutIfItRecordsOnlyPhases) {
  OperationRecorder recorder(at::kCPU, nullptr, OperationRecorder::Records::phases);
  {
    const profile::PhaseRecord phase("forward");
    at::add(at::ones({2}), at::ones({2}));
  }
  const observe::Trace trace = recorder.finish();
  ASSERT_EQ(trace.size(), 1U);
  ASSERT_EQ(trace[0].spans.size(), 1U);
  EXPECT_EQ(trace[0].spans[0].name, "forward");
}

TEST(OperationCost, ProductsCountTwoPerMultiplyAdd) {
  const at::Tensor a = at::ones({3, 4}), b = at::ones({4, 5}), c = at::ones({3, 5});
  const at::Tensor batch_a = at::ones({2, 3, 4}), batch_b = at::ones({2, 4, 5}), batch_c = at::ones({2, 3, 5});
  EXPECT_EQ(sum_of(record([&] { at::mm(a, b); })).flops, 2 * 3 * 4 * 5);
  EXPECT_EQ(sum_of(record([&] { at::addmm(c, a, b); })).flops, 2 * 3 * 4 * 5);
  EXPECT_EQ(sum_of(record([&] { c.addmm_(a, b); })).flops, 2 * 3 * 4 * 5);
  EXPECT_EQ(sum_of(record([&] { at::bmm(batch_a, batch_b); })).flops, 2 * 2 * 3 * 4 * 5);
  EXPECT_EQ(sum_of(record([&] { at::baddbmm(batch_c, batch_a, batch_b); })).flops, 2 * 2 * 3 * 4 * 5);
  // A product that calls another product counts once.
  EXPECT_EQ(sum_of(record([&] { at::matmul(batch_a, b); })).flops, 2 * 2 * 3 * 4 * 5);
}

TEST(OperationCost, AttentionCountsThePairsThatTheMaskLetsThrough) {
  constexpr int64_t batch = 2, heads = 3, length = 5, width = 8;
  const auto attend = [&](bool causal, bool differentiate) {
    const at::Tensor x = at::ones({batch, heads, length, width}).requires_grad_(differentiate);
    return record([&] {
      const at::Tensor y = at::scaled_dot_product_attention(x, x, x, std::nullopt, 0.0, causal);
      if (differentiate) y.backward(at::ones(y.sizes()));
    });
  };
  constexpr double all = batch * heads * width * length * length;
  constexpr int64_t pairs = length * (length + 1) / 2;
  constexpr double seen = batch * heads * width * pairs;
  EXPECT_EQ(sum_of(attend(false, false)).flops, 4 * all);
  EXPECT_EQ(sum_of(attend(true, false)).flops, 4 * seen);
  EXPECT_EQ(sum_of(attend(true, true)).flops, 14 * seen);
}

TEST(OperationCost, BytesAreThoseOfTensorsInAndOut) {
  const at::Tensor a = at::ones({10}), b = at::ones({10}), table = at::ones({1000, 4}), matrix = at::ones({6, 6});
  const at::Tensor rows = at::zeros({3}, at::kLong);
  EXPECT_EQ(sum_of(record([&] { at::add(a, b); })).bytes, 3 * 40);
  EXPECT_EQ(sum_of(record([&] { a.view({2, 5}).t(); })).bytes, 0);
  // A broadcast tensor counts with the size of its memory; a result that the caller gives is written once.
  const at::Tensor broadcast = at::ones({1}).expand({10});
  EXPECT_EQ(sum_of(record([&] { at::add(a, broadcast); })).bytes, 40 + 4 + 40);
  at::Tensor out = at::zeros({6, 6});
  EXPECT_EQ(sum_of(record([&] { at::mm_out(out, matrix, matrix); })).bytes, 3 * 144);
  // An embedding reads only three rows of its table.
  EXPECT_EQ(sum_of(record([&] { at::embedding(table, rows); })).bytes, 24 + 2 * 48);
  // Memory that a copy overwrites is not read.
  at::Tensor half = at::ones({10}, at::kHalf);
  const at::Tensor whole = at::ones({10});
  EXPECT_EQ(sum_of(record([&] { half.copy_(whole); })).bytes, 10 * 4 + 10 * 2);
}

TEST(OperationRecorder, RecordsNothingBeforeItIsMadeAndAfterItHasFinished) {
  EXPECT_FALSE(profile::recording());
  {
    OperationRecorder recorder(at::kCPU);
    EXPECT_TRUE(profile::recording());
  }
  EXPECT_FALSE(profile::recording());
  EXPECT_EQ(record([] {}).rows.size(), 0u);
}

// A thread that saves in the background may end an operation after the recording.
TEST(OperationRecorder, LeavesOutOperationsThatEndAfterTheRecording) {
  auto recorder = std::make_unique<OperationRecorder>(at::kCPU);
  { const profile::PhaseRecord inside("inside"); }
  auto open = std::make_unique<profile::PhaseRecord>("save");
  const observe::Trace trace = recorder->finish();
  open.reset();
  ASSERT_EQ(trace.size(), 1u);
  ASSERT_EQ(trace[0].spans.size(), 1u);
  EXPECT_EQ(trace[0].spans[0].name, "inside");
}

}  // namespace
}  // namespace terrace::profile
