// Checks error feedback: what is sent, what is kept, and the sum of many reductions.
#include "terrace/parallel/error_feedback.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "terrace/base/random.h"
#include "terrace/ops/kernels.h"

namespace terrace::parallel {
namespace {

using ops::BlockCode;

constexpr BlockCode all_codes[] = {BlockCode::int8, BlockCode::int4, BlockCode::fp8};

// Close to normal numbers, of another magnitude in each block.
at::Tensor noise(int64_t values, uint32_t seed) {
  at::Tensor all = at::empty({values}, at::kFloat);
  for (int64_t i = 0; i < values; ++i) {
    const PhiloxBlock draw = philox_at({seed, 3}, static_cast<uint64_t>(i), 0);
    double sum = 0;
    for (const uint32_t word : draw) sum += std::ldexp(static_cast<double>(word), -32) - 0.5;
    all.mutable_data_ptr<float>()[i] = static_cast<float>(std::ldexp(sum, static_cast<int>(i / 256 % 7) - 3));
  }
  return all;
}

at::Tensor decoded(BlockCode code, const at::Tensor& payloads, int64_t parts, int64_t values) {
  at::Tensor into = at::empty({values}, at::kFloat);
  ops::cpu_kernels().decode_blocks({.code = code, .parts = parts}, payloads, into);
  return into;
}

at::Tensor rounded_to_nearest(BlockCode code, const at::Tensor& values) {
  const ops::BlockLayout layout{.code = code, .parts = 1, .values = values.numel()};
  at::Tensor payload = at::empty({layout.payload_bytes()}, at::kByte);
  ops::cpu_kernels().encode_blocks({.code = code}, values, payload);
  return payload;
}

at::Tensor errors_of(const ErrorFeedback& feedback, int64_t values) {
  return decoded(BlockCode::int8, feedback.kept(), 1, values);
}

float largest(const at::Tensor& tensor) { return tensor.abs().max().item<float>(); }

// Half of the distance of two codes, for the largest magnitude m of a block; fp8 has three bits behind the first one.
float half_a_step(BlockCode code, float m) {
  return code == BlockCode::fp8 ? m / 16 : m / (2 * ops::largest_code(code));
}

TEST(ErrorFeedback, KeepsNothingOfExactValues) {
  for (const BlockCode code : all_codes) {
    constexpr int64_t values = 1024;
    // The largest code of a block times a power of two, and codes times this power.
    at::Tensor exact = at::empty({values}, at::kFloat);
    for (int64_t i = 0; i < values; ++i) {
      const int64_t whole = code == BlockCode::int8 ? i % 255 - 127 : i % 15 - 7;
      exact[i] =
          code == BlockCode::fp8 ? std::ldexp(448.0, static_cast<int>(-(i % 9))) : static_cast<double>(whole) / 4;
    }
    ErrorFeedback feedback(code, values, at::kCPU);
    for (int call = 0; call < 3; ++call) {
      EXPECT_TRUE(at::equal(decoded(code, feedback.encode(exact, 2), 2, values), exact));
      EXPECT_EQ(largest(errors_of(feedback, values)), 0);
    }
  }
}

TEST(ErrorFeedback, SendsTheNearestCodesOfValuesAndErrors) {
  for (const BlockCode code : all_codes) {
    constexpr int64_t values = 3 * 1024;
    ErrorFeedback feedback(code, values, at::kCPU);
    for (uint32_t call = 0; call < 4; ++call) {
      const at::Tensor fed = noise(values, call) + errors_of(feedback, values);
      const at::Tensor payload = feedback.encode(noise(values, call), 1);
      EXPECT_TRUE(at::equal(payload, rounded_to_nearest(code, fed)));
      const at::Tensor error = fed - decoded(code, payload, 1, values);
      EXPECT_GT(largest(error), 0);
      EXPECT_TRUE(at::equal(feedback.kept(), rounded_to_nearest(BlockCode::int8, error)));
    }
  }
}

// The sum of what is sent lacks the last error alone, and the roundings of the kept errors.
TEST(ErrorFeedback, KeepsTheSumOfManyCallsWithinOneRounding) {
  for (const BlockCode code : all_codes) {
    constexpr int64_t values = 256;
    constexpr int calls = 64;
    const at::Tensor gradient = noise(values, 11);
    ErrorFeedback feedback(code, values, at::kCPU);
    at::Tensor sent = at::zeros({values}, at::kDouble), without = at::zeros({values}, at::kDouble);
    const at::Tensor nearest = decoded(code, rounded_to_nearest(code, gradient), 1, values);
    const float step = half_a_step(code, largest(gradient)), one = half_a_step(code, largest(gradient) + step);
    for (int call = 1; call <= calls; ++call) {
      sent += decoded(code, feedback.encode(gradient, 1), 1, values);
      without += nearest;
      const double rounding_of_errors = call * one / 254;
      EXPECT_LE((sent - gradient.to(at::kDouble) * call).abs().max().item<double>(), 1.001 * one + rounding_of_errors);
    }
    EXPECT_GT((without - gradient.to(at::kDouble) * calls).abs().max().item<double>(), 10 * one);
  }
}

TEST(ErrorFeedback, SameBitsForAnyPiecesPartsAndThreads) {
  const int threads = at::get_num_threads();
  for (const BlockCode code : all_codes) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      constexpr int64_t values = 6 * 1024;
      ErrorFeedback whole(code, values, at::kCPU, values);
      std::vector<at::Tensor> expected, kept;
      for (uint32_t call = 0; call < 3; ++call) {
        expected.push_back(decoded(code, whole.encode(noise(values, call).to(type), 1), 1, values));
        kept.push_back(whole.kept().clone());
      }
      for (const int64_t piece : {0, 256, 512, 5 * 256, 1 << 20}) {
        for (const int64_t parts : {1, 2, 3, 6}) {
          at::set_num_threads(1 + static_cast<int>(parts % 2));
          ErrorFeedback feedback(code, values, at::kCPU, piece);
          for (uint32_t call = 0; call < 3; ++call) {
            const at::Tensor payloads = feedback.encode(noise(values, call).to(type), parts);
            EXPECT_TRUE(at::equal(decoded(code, payloads, parts, values), expected[call])) << piece << " " << parts;
            EXPECT_TRUE(at::equal(feedback.kept(), kept[call])) << piece << " " << parts;
          }
        }
      }
    }
  }
  at::set_num_threads(threads);
}

TEST(ErrorFeedback, SendsABlockThatIsNotFiniteAndForgetsItsError) {
  for (const BlockCode code : all_codes) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      constexpr int64_t values = 1024;
      ErrorFeedback feedback(code, values, at::kCPU), finite(code, values, at::kCPU);
      for (ErrorFeedback* both : {&feedback, &finite}) both->encode(noise(values, 1), 1);
      at::Tensor gradient = noise(values, 2);
      const at::Tensor expected = decoded(code, finite.encode(gradient, 1), 1, values);
      gradient[300] = bad;
      const at::Tensor sent = decoded(code, feedback.encode(gradient, 1), 1, values);
      EXPECT_TRUE(sent.narrow(0, 256, 256).isnan().all().item<bool>());
      EXPECT_EQ(largest(errors_of(feedback, values).narrow(0, 256, 256)), 0);
      for (const int64_t other : {0, 512, 768}) {
        EXPECT_TRUE(at::equal(sent.narrow(0, other, 256), expected.narrow(0, other, 256)));
        EXPECT_TRUE(at::equal(errors_of(feedback, values).narrow(0, other, 256),
                              errors_of(finite, values).narrow(0, other, 256)));
      }
      EXPECT_TRUE(decoded(code, feedback.encode(noise(values, 3), 1), 1, values).isfinite().all().item<bool>());
    }
  }
}

TEST(ErrorFeedback, ScalesExactly) {
  constexpr int64_t values = 2048;
  ErrorFeedback feedback(BlockCode::int4, values, at::kCPU);
  feedback.encode(noise(values, 1), 1);
  const at::Tensor before = errors_of(feedback, values), bits = feedback.kept().clone();
  EXPECT_GT(largest(before), 0);
  feedback.scale(2);
  EXPECT_TRUE(at::equal(errors_of(feedback, values), before * 2));
  feedback.scale(0.25);
  EXPECT_TRUE(at::equal(errors_of(feedback, values), before / 2));
  feedback.scale(2);
  EXPECT_TRUE(at::equal(feedback.kept(), bits));
}

TEST(ErrorFeedback, ScalesWithinTheRangeOfScales) {
  constexpr int64_t values = 256;
  for (const double factor : {2.0, 0.5}) {
    ErrorFeedback feedback(BlockCode::int8, values, at::kCPU);
    feedback.encode(noise(values, 1), 1);
    for (int i = 0; i < 300; ++i) feedback.scale(factor);
    const at::Tensor errors = errors_of(feedback, values);
    EXPECT_TRUE(errors.isfinite().all().item<bool>());
    EXPECT_GE(largest(errors), 0x1p-126F);
    EXPECT_EQ(largest(errors) > 1, factor > 1);
  }
}

TEST(ErrorFeedback, ForgetsToTheStateOfTheStart) {
  constexpr int64_t values = 512;
  ErrorFeedback feedback(BlockCode::int4, values, at::kCPU), fresh(BlockCode::int4, values, at::kCPU);
  feedback.encode(noise(values, 1), 1);
  EXPECT_FALSE(at::equal(feedback.kept(), fresh.kept()));
  feedback.forget();
  EXPECT_TRUE(at::equal(feedback.kept(), fresh.kept()));
  EXPECT_TRUE(at::equal(feedback.encode(noise(values, 2), 1), fresh.encode(noise(values, 2), 1)));
}

// A state that was saved is restored by filling kept().
TEST(ErrorFeedback, ContinuesFromItsCodes) {
  constexpr int64_t values = 1024;
  ErrorFeedback first(BlockCode::fp8, values, at::kCPU), second(BlockCode::fp8, values, at::kCPU);
  first.encode(noise(values, 1), 2);
  second.kept().copy_(first.kept());
  EXPECT_TRUE(at::equal(second.encode(noise(values, 2), 2), first.encode(noise(values, 2), 2)));
  EXPECT_TRUE(at::equal(second.kept(), first.kept()));
}

}  // namespace
}  // namespace terrace::parallel
