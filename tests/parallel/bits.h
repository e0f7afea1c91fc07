// Compares trainings bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "tests/parallel/training.h"

namespace terrace::parallel {

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// Expects equal losses and, for every parameter, equal gradients, weights and moments.
inline void expect_same_tensors(const Outcome& ours, const Outcome& other) {
  EXPECT_EQ(ours.losses, other.losses);
  for (const auto tensors : {&Outcome::gradients, &Outcome::weights, &Outcome::m, &Outcome::v}) {
    ASSERT_EQ((ours.*tensors).size(), (other.*tensors).size());
    for (const auto& [name, tensor] : other.*tensors) EXPECT_TRUE(same_bits((ours.*tensors).at(name), tensor)) << name;
  }
}

inline void expect_same_bits(const Outcome& ours, const Outcome& other) {
  EXPECT_EQ(ours.norms, other.norms);
  expect_same_tensors(ours, other);
}

}  // namespace terrace::parallel
