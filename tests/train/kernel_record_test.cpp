// Tests what is recorded about threads and kernels, and how a run describes differences between two records.
#include "terrace/train/kernel_record.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "terrace/ops/products/products.h"

namespace terrace::train {
namespace {

Json facts(int64_t threads) { return kernel_record({.threads = threads, .micro_batch = 4}); }

// Torch's kernels for some products of two classes.
ops::ProductsByClass mixed_products() {
  ops::ProductsByClass products;
  products[ops::WeightClass::medium].forward = ops::Products::torch;
  products[ops::WeightClass::tall].input_gradient = products[ops::WeightClass::tall].weight_gradient =
      ops::Products::torch;
  return products;
}

std::string own_name() { return ops::products_instructions(at::kCPU, at::kFloat, ops::Products::own); }
bool has_own_products() { return own_name() != "torch"; }

TEST(KernelRecord, HoldsTheChoiceThatARunContinuesWith) {
  for (const ops::ProductsByClass& products : {ops::ProductsByClass::all(ops::Products::own),
                                               ops::ProductsByClass::all(ops::Products::torch), mixed_products()}) {
    for (const ops::AttentionChoice attention : {ops::AttentionChoice::fastest, ops::AttentionChoice::torch}) {
      const ops::KernelChoice choice{products, attention};
      const Json record = kernel_record({.choice = choice});
      EXPECT_EQ(kernel_record({.choice = recorded_choice(record)}), record);
      if (has_own_products()) {
        EXPECT_EQ(recorded_choice(record).products, products);
      }
    }
  }
  const Json torchs =
      kernel_record({.choice = {ops::ProductsByClass::all(ops::Products::torch), ops::AttentionChoice::torch}});
  EXPECT_EQ(torchs.at("products"), "torch");
  EXPECT_EQ(torchs.at("attention"), "torch");
}

TEST(KernelRecord, NamesTheKernelsOfEachClassIfTheyDiffer) {
  if (!has_own_products()) GTEST_SKIP() << "this processor has no instructions for our products";
  const Json products = kernel_record({.choice = {.products = mixed_products()}}).at("products");
  const Json own = {{"forward", own_name()}, {"input_gradient", own_name()}, {"weight_gradient", own_name()}};
  Json medium = own, tall = own;
  medium["forward"] = tall["input_gradient"] = tall["weight_gradient"] = "torch";
  EXPECT_EQ(products, (Json{{"small", own}, {"medium", medium}, {"large", own}, {"tall", tall}}));
}

TEST(KernelRecord, OlderVersionIsTheChoiceForEveryClass) {
  const auto products_of = [](const Json& record) { return recorded_choice(record).products; };
  for (const char* own : {"avx512", "avx2"}) {
    EXPECT_EQ(products_of({{"products", own}}), ops::ProductsByClass::all(ops::Products::own));
  }
  EXPECT_EQ(products_of({{"products", "torch"}}), ops::ProductsByClass::all(ops::Products::torch));
  EXPECT_EQ(products_of(Json::object()), ops::ProductsByClass::all(ops::Products::torch));
}

TEST(KernelRecord, SaysWhichProductsDiffer) {
  if (!has_own_products()) GTEST_SKIP() << "this processor has no instructions for our products";
  const Json mixed = kernel_record({.choice = {.products = mixed_products()}}), own = kernel_record({});
  EXPECT_EQ(kernel_differences(mixed, own),
            fmt::format("products.medium.forward \"torch\" -> \"{0}\", products.tall.input_gradient \"torch\" -> "
                        "\"{0}\", products.tall.weight_gradient \"torch\" -> \"{0}\"",
                        own_name()));
  EXPECT_EQ(kernel_differences(own, mixed),
            fmt::format("products.medium.forward \"{0}\" -> \"torch\", products.tall.input_gradient \"{0}\" -> "
                        "\"torch\", products.tall.weight_gradient \"{0}\" -> \"torch\"",
                        own_name()));
}

TEST(KernelRecord, SameTwiceOnOneMachine) { EXPECT_EQ(kernel_differences(facts(2), facts(2)), ""); }

TEST(KernelRecord, SaysWhatDiffers) {
  EXPECT_EQ(kernel_differences(facts(2), facts(4)), "threads 2 -> 4");
  Json other = facts(1);
  other["vector_instructions"] = "NONE OF THIS WORLD";
  EXPECT_NE(kernel_differences(other, facts(1)).find("vector_instructions"), std::string::npos);
  EXPECT_NE(kernel_differences(Json::object(), facts(1)).find("threads null -> 1"), std::string::npos);
}

}  // namespace
}  // namespace terrace::train
