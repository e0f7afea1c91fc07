// The fixture of tests of our matrix products in one type, on one thread.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "terrace/ops/products/products.h"

namespace terrace::testing {

class OwnProductsOfType : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    if (!ops::own_products(at::zeros({1, 1}, GetParam()), ops::Products::own))
      GTEST_SKIP() << "this processor has no instructions for our products of this type";
  }
};

}  // namespace terrace::testing
