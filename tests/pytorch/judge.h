// The one bound of all equivalence tests: our error against a run in double precision is at most twice that of another
// run in the same type (PyTorch's, or a run of ours at another layout).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

namespace terrace::testing {

// Half the distance from 1 to the next number of the type: the relative error of one rounding.
inline double unit_roundoff(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return 0x1p-8;
    case at::kHalf:
      return 0x1p-11;
    case at::kFloat:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

// Collects errors by name, in the Euclidean norm over the elements and over all draws added under the name, and judges
// the sums. Rounding errors are a matter of luck: over single draws of a small tensor the ratio of two equally good
// programs passes 2 now and then, over half a dozen draws it stays near 1.
class ErrorTally {
 public:
  // Says what is summed over the draws: errors as they are, or errors in units of their own size (ours, theirs and a
  // rounding together), so that all draws have equal weight. The latter is for functions with jumps, such as a
  // derivative where the largest of two nearly equal values decides: the draw in which a rounding turns it outweighs
  // all others.
  enum class Draws { by_size, equal };

  explicit ErrorTally(at::ScalarType type, Draws draws = Draws::by_size) : type_(type), draws_(draws) {}

  void add(const std::string& name, const at::Tensor& ours, const at::Tensor& theirs, const at::Tensor& exact) {
    at::NoGradGuard no_grad;
    ASSERT_EQ(ours.sizes(), exact.sizes()) << name;
    const auto square = [](const at::Tensor& t) {
      return std::pow(at::linalg_vector_norm(t.to(at::kDouble)).item<double>(), 2);
    };
    const double own = square(ours.to(at::kDouble).sub(exact)), other = square(theirs.to(at::kDouble).sub(exact));
    const double size = square(exact), all = own + other + std::pow(unit_roundoff(type_), 2) * size;
    const double weight = draws_ == Draws::by_size || all == 0 ? 1 : 1 / all;
    Squares& squares = squares_[name];
    squares.ours += weight * own;
    squares.theirs += weight * other;
    squares.size += weight * size;
  }

  // To twice their error comes one rounding of the result in the type: their error may be zero (a single element, an
  // exact case), and no result in this type can be asked to be closer than its rounding.
  ::testing::AssertionResult as_accurate(const std::string& name) const {
    const Squares& squares = squares_.at(name);
    const double rounding = unit_roundoff(type_) * std::sqrt(squares.size);
    // Written so that a NaN fails.
    if (std::sqrt(squares.ours) <= 2.0 * std::sqrt(squares.theirs) + rounding) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << name << ": error " << std::sqrt(squares.ours) << ", theirs "
                                         << std::sqrt(squares.theirs) << ", one rounding " << rounding;
  }

  void expect_as_accurate() const {
    EXPECT_FALSE(squares_.empty());
    for (const auto& [name, squares] : squares_) EXPECT_TRUE(as_accurate(name));
  }

 private:
  struct Squares {
    double ours = 0, theirs = 0, size = 0;
  };
  at::ScalarType type_;
  Draws draws_;
  std::map<std::string, Squares> squares_;
};

// The judgement of a single large tensor.
inline ::testing::AssertionResult as_accurate(const at::Tensor& ours, const at::Tensor& theirs, const at::Tensor& exact,
                                              at::ScalarType type) {
  ErrorTally tally(type);
  tally.add("result", ours, theirs, exact);
  return tally.as_accurate("result");
}

}  // namespace terrace::testing
