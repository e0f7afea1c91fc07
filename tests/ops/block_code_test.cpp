// Compares block quantization with its definition, written down value by value in double precision, and checks its
// bounds of error on blocks of every kind.
#include "terrace/ops/block_code.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "terrace/ops/kernels.h"

namespace terrace::ops {
namespace {

constexpr BlockCode codes[] = {BlockCode::int8, BlockCode::int4, BlockCode::fp8};

at::Tensor passed(const at::Tensor& values, const BlockCoding& coding) {
  const BlockLayout layout{coding.code, coding.parts, values.numel() / coding.parts};
  const at::Tensor payloads = at::empty({coding.parts * layout.payload_bytes()}, at::kByte);
  at::Tensor arrived = at::empty_like(values);
  cpu_kernels().encode_blocks(coding, values, payloads);
  cpu_kernels().decode_blocks(coding, payloads, arrived);
  return arrived;
}

at::Tensor normal(int64_t size) { return at::randn({size}, at::make_generator<at::CPUGeneratorImpl>(3)); }

// The numbers that a code can be, without the scale.
std::vector<double> numbers(BlockCode code) {
  std::vector<double> list;
  if (code == BlockCode::fp8) {
    for (int bits = 0; bits < 127; ++bits) {
      const int exponent = bits >> 3, mantissa = bits & 7;
      const double number = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
      list.insert(list.end(), {number, -number});
    }
  } else {
    const int most = code == BlockCode::int8 ? 127 : 7;
    for (int number = -most; number <= most; ++number) list.push_back(number);
  }
  std::sort(list.begin(), list.end());
  return list;
}

// The neighbours of a number in a sorted list.
std::pair<double, double> around(double number, const std::vector<double>& list) {
  const auto above = std::lower_bound(list.begin(), list.end(), number);
  if (above == list.end()) return {list.back(), list.back()};
  if (above == list.begin()) return {list.front(), list.front()};
  return {*(above - 1), *above};
}

// The scale and its inverse are rounded, so that a value may lie this far from where it is in exact arithmetic, in
// parts of the largest value.
constexpr double of_scale = 4 * 0x1p-24;

TEST(BlockCodes, RoundToTheNearestNumberOfTheCode) {
  for (const BlockCode code : codes) {
    const std::vector<double> list = numbers(code);
    const at::Tensor values = normal(1000), arrived = passed(values, {.code = code});
    for (int64_t begin = 0; begin < 1000; begin += code_block) {
      const at::Tensor block = values.narrow(0, begin, std::min(code_block, 1000 - begin));
      const double most = block.abs().max().item<double>(), scale = most / largest_code(code);
      for (int64_t i = 0; i < block.numel(); ++i) {
        const double value = block[i].item<double>() / scale;
        const auto [below, above] = around(value, list);
        const double error = std::min(value - below, above - value) * scale;
        EXPECT_LE(std::abs(arrived[begin + i].item<double>() - block[i].item<double>()),
                  std::abs(error) + of_scale * most);
      }
    }
  }
}

TEST(BlockCodes, RoundAtRandomToOneOfTheNeighbours) {
  for (const BlockCode code : codes) {
    const std::vector<double> list = numbers(code);
    const at::Tensor values = normal(256);
    const at::Tensor arrived = passed(values, {.code = code, .draw = RoundingDraw{.key = {1, 2}}});
    const double most = values.abs().max().item<double>(), scale = most / largest_code(code);
    for (int64_t i = 0; i < 256; ++i) {
      const auto [below, above] = around(values[i].item<double>() / scale, list);
      EXPECT_GE(arrived[i].item<double>(), below * scale - of_scale * most);
      EXPECT_LE(arrived[i].item<double>(), above * scale + of_scale * most);
    }
  }
}

// Each block has the largest code times another power of two as its largest value.
TEST(BlockCodes, PassMultiplesOfTheLargestValueOverTheLargestCodeExactly) {
  for (const BlockCode code : codes) {
    const std::vector<double> list = numbers(code);
    const at::Tensor values = at::zeros({1100});
    for (int64_t i = 0; i < values.numel(); ++i) {
      const double number = i % code_block == 7 ? largest_code(code) : list[static_cast<size_t>(i * 7) % list.size()];
      values[i].fill_(std::ldexp(number, static_cast<int>(i / code_block) * 20 - 40));
    }
    values[1024 + 7].fill_(std::ldexp(largest_code(code), 40));
    EXPECT_TRUE(passed(values, {.code = code}).equal(values));
    EXPECT_TRUE(passed(values, {.code = code, .draw = RoundingDraw{.key = {1, 2}}}).equal(values));
  }
}

// |error| <= m / (2 L) for int8 and int4, a whole step m / L at random; for fp8 1/16 of the value, and at random 1/8.
TEST(BlockCodes, KeepTheBoundOfErrorOnEveryKindOfBlock) {
  const at::Tensor heavy = normal(256).pow(5), outlier = normal(256).mul(1e-3);
  outlier[200].fill_(1e4);
  const std::vector<at::Tensor> blocks = {
      normal(256),      heavy,     outlier,   at::full({256}, 0.3), at::full({256}, -7e5),
      at::zeros({256}), normal(1), normal(2), normal(101),          normal(255)};
  for (const BlockCode code : codes) {
    for (const at::Tensor& block : blocks) {
      const double most = block.abs().max().item<double>();
      for (const bool random : {false, true}) {
        BlockCoding coding{.code = code};
        if (random) coding.draw = RoundingDraw{.key = {5, 6}};
        const at::Tensor errors = passed(block, coding).sub(block).abs().to(at::kDouble);
        at::Tensor bounds = at::full({block.numel()}, 0.5 * most / largest_code(code), at::kDouble);
        if (code == BlockCode::fp8) {
          // Below 2^-6 of its numbers fp8 has steps of 2^-9.
          bounds = block.abs().to(at::kDouble).div(16).clamp_min(0.5 * most / 448 / 512);
        }
        EXPECT_TRUE(errors.le(bounds.mul(random ? 2 : 1).add(of_scale * most)).all().item<bool>()) << block;
      }
    }
  }
}

TEST(BlockCodes, KeepSubnormalNumbersToHalfOfTheSmallestScale) {
  for (const BlockCode code : codes) {
    const at::Tensor block = normal(256).mul(1e-39), arrived = passed(block, {.code = code});
    EXPECT_LE(arrived.sub(block).abs().max().item<double>(), 0x1p-127);
  }
}

TEST(BlockCodes, DecodeNoNegativeZero) {
  for (const BlockCode code : codes) {
    const at::Tensor values = normal(512).mul(1e-3).neg();
    values[0].fill_(1e6);
    values[300].fill_(-0.0);
    for (const bool random : {false, true}) {
      BlockCoding coding{.code = code};
      if (random) coding.draw = RoundingDraw{.key = {5, 6}};
      const at::Tensor arrived = passed(values, coding), zeros = arrived.eq(0);
      EXPECT_GT(zeros.sum().item<int64_t>(), 200);
      EXPECT_FALSE(arrived.signbit().logical_and(zeros).any().item<bool>());
    }
  }
}

// The norm of a gradient that went over the wire is thereby not finite where the gradient was not.
TEST(BlockCodes, DecodeABlockWithANaNOrAnInfinityAsNaN) {
  for (const BlockCode code : codes) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
      const at::Tensor values = normal(700);
      values[300].fill_(bad);
      const at::Tensor is_nan = passed(values, {.code = code, .draw = RoundingDraw{}}).isnan();
      EXPECT_TRUE(is_nan.narrow(0, 256, 256).all().item<bool>());
      EXPECT_EQ(is_nan.sum().item<int64_t>(), 256);
    }
  }
}

// One value is drawn at 10,000 places; the mean is within four standard errors of it.
TEST(BlockCodes, MeanOfRandomRoundingsIsTheValue) {
  constexpr int64_t draws = 10'000;
  for (const BlockCode code : codes) {
    for (const double value : {0.0, 1.0 / 3, -0.0123, 0.9, -0.5, 0.001}) {
      // The first value of each block of two is the largest.
      const at::Tensor values = at::full({draws * 2}, value);
      for (int64_t i = 0; i < draws; ++i) values[2 * i].fill_(1.0);
      const at::Tensor arrived = passed(values, {.code = code, .parts = draws, .draw = RoundingDraw{.key = {11, 12}}})
                                     .view({draws, 2})
                                     .select(1, 1)
                                     .to(at::kDouble);
      const double error = arrived.std().item<double>() / std::sqrt(static_cast<double>(draws));
      EXPECT_NEAR(arrived.mean().item<double>(), value, 4 * error + of_scale) << value;
    }
  }
}

TEST(BlockCodes, DrawByKeyWordsAndPlace) {
  const at::Tensor values = at::full({512}, 0.4);
  values[0].fill_(1.0);
  values[256].fill_(1.0);
  const RoundingDraw draw{.key = {1, 2}, .words = {3, 4, 5}};
  const at::Tensor first = passed(values, {.code = BlockCode::int8, .draw = draw});
  EXPECT_TRUE(passed(values, {.code = BlockCode::int8, .draw = draw}).equal(first));
  EXPECT_FALSE(first.narrow(0, 0, 256).equal(first.narrow(0, 256, 256)));
  for (size_t word = 0; word < 3; ++word) {
    RoundingDraw other = draw;
    ++other.words[word];
    EXPECT_FALSE(passed(values, {.code = BlockCode::int8, .draw = other}).equal(first));
  }
}

// Parts of 1,024 values are encoded alike in one call and in several.
TEST(BlockCodes, EncodeEachPartAlone) {
  const at::Tensor values = normal(4 * 1024);
  for (const BlockCode code : codes) {
    const at::Tensor whole = passed(values, {.code = code, .parts = 4});
    EXPECT_TRUE(passed(values, {.code = code}).equal(whole));
    for (int64_t part = 0; part < 4; ++part) {
      const at::Tensor own = values.narrow(0, part * 1024, 1024);
      EXPECT_TRUE(passed(own, {.code = code}).equal(whole.narrow(0, part * 1024, 1024)));
    }
  }
}

TEST(BlockCodes, ReadAndWriteEveryType) {
  const at::Tensor values = normal(300);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kDouble}) {
    const at::Tensor of_type = values.to(type);
    const at::Tensor expected = passed(of_type.to(at::kFloat), {.code = BlockCode::int8}).to(type);
    EXPECT_TRUE(passed(of_type, {.code = BlockCode::int8}).equal(expected));
  }
}

TEST(BlockCodes, AddInFp32) {
  const at::Tensor values = normal(300), sum = normal(300).mul(3);
  const at::Tensor payload = at::empty({BlockLayout{BlockCode::int4, 1, 300}.payload_bytes()}, at::kByte);
  cpu_kernels().encode_blocks({.code = BlockCode::int4}, values, payload);
  const at::Tensor expected = sum.add(passed(values, {.code = BlockCode::int4}));
  cpu_kernels().decode_blocks({.code = BlockCode::int4, .adds = true}, payload, sum);
  EXPECT_TRUE(sum.equal(expected));
}

// 1,000 values: four scales, and a byte or half a byte for each value.
TEST(BlockCodes, PayloadSizesMatchTheFormula) {
  EXPECT_EQ((BlockLayout{BlockCode::int8, 1, 1000}.payload_bytes()), 1016);
  EXPECT_EQ((BlockLayout{BlockCode::fp8, 2, 1000}.payload_bytes()), 1016);
  EXPECT_EQ((BlockLayout{BlockCode::int4, 1, 1000}.payload_bytes()), 516);
  EXPECT_EQ((BlockLayout{BlockCode::int4, 1, 1001}.payload_bytes()), 517);
}

}  // namespace
}  // namespace terrace::ops
