// Counts what one more layer adds to a step: operations that run, and the bytes that they read and write, along the
// path that a GPU takes. Limits keep them from growing.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "terrace/ops/products/product_choice.h"
#include "terrace/ops/products/products.h"
#include "terrace/run/run_training.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

struct Count {
  int64_t calls = 0;
  double bytes = 0;
};
using Ledger = std::map<std::string, Count>;

class StepLedger : public train::TinyRun {
 protected:
  // One step's operations that move bytes. Torch's products and, since one head is wider than our kernels take, its
  // attention, as on a GPU.
  Ledger ledger_of(int64_t layers) const {
    ops::ProductsByClass torch_products;
    for (const ops::WeightClass weights : ops::weight_classes) {
      for (const ops::NamedProduct& product : ops::named_products) {
        torch_products[weights].*product.choice = ops::Products::torch;
      }
    }
    Ledger ledger;
    const auto report = [&](const Profile& profile) {
      for (const observe::OperationRow& row : profile.operations.rows) {
        if (row.bytes > 0) ledger[row.name] = {row.calls, row.bytes};
      }
    };
    run_training(tiny_config({"train.threads=1", "train.precision=bf16", "train.micro_batch=4", "model.width=264",
                              "model.heads=1", "model.layers=" + std::to_string(layers),
                              "checkpoint.folder=" + (folder_ / std::to_string(layers)).string()}),
                 {.ranks = 1,
                  .resume = "",
                  .measure_peak =
                      [](const at::Device&, at::ScalarType) {
                        return train::Peak{1e9, "test"};
                      },
                  .choose_products = [&](const at::Device&, at::ScalarType,
                                         const std::set<ops::WeightClass>&) { return torch_products; },
                  .profile_steps = 1,
                  .report_profile = report});
    return ledger;
  }

  // The operations that a third layer adds to two.
  Ledger of_a_layer() const {
    const Ledger two = ledger_of(2);
    Ledger more = ledger_of(3);
    for (auto& [name, count] : more) {
      const auto found = two.find(name);
      if (found == two.end()) continue;
      count.calls -= found->second.calls;
      count.bytes -= found->second.bytes;
    }
    return more;
  }
};

// Bytes of the hidden states of a micro-batch in bf16, and elements of a layer.
constexpr double tokens = 4 * 16, width = 264, hidden = tokens * width * 2;
constexpr double matrices = 12 * width * width, biases_and_norms = (9 + 4) * width,
                 elements = matrices + biases_and_norms;

// Our own passes and those of activations, to the byte.
TEST_F(StepLedger, ALayerMakesThePassesThatItsFormulasSay) {
  Ledger ledger = of_a_layer();
  const auto expect = [&](const char* name, int64_t calls, double bytes) {
    EXPECT_EQ(ledger[name].calls, calls) << name;
    EXPECT_EQ(ledger[name].bytes, bytes) << name;
  };
  // One of the norms adds the branch before it to the residual stream; statistics in fp32, weights and biases in bf16.
  const double statistics = tokens * 2 * 4;
  expect("terrace::norm", 2, 6 * hidden + 2 * (statistics + 2 * width * 2));
  // The gradients of the result and the sum, the input, and the input's gradient; sums for both parameters in fp32.
  expect("terrace::norm_backward", 2, 8 * hidden + 2 * (statistics + width * 2 + 2 * width * 4));
  expect("aten::gelu", 1, 2 * 4 * hidden);
  expect("aten::gelu_backward", 1, 3 * 4 * hidden);
  // The gradients of the four outputs, and of the biases, which are read and written.
  expect("terrace::add_column_sums", 4, (3 + 1 + 4 + 1) * (hidden + width * 4 * 2));
  // Masters and both moments read and written, gradients read, weights written; one call a parameter.
  expect("terrace::adamw", 12, elements * (3 * 4 * 2 + 4 + 2));
}

// A layer has the products of four matrices in three directions, of which those with biases add them, and few other
// operations.
TEST_F(StepLedger, ALayerStaysBelowItsLimits) {
  if (ops::products_instructions(at::kCPU, at::kFloat, ops::Products::own) != std::string_view("avx512")) {
    GTEST_SKIP() << "without AVX-512, torch's products of bf16 are computed from copies in fp32, unlike on a GPU";
  }
  Ledger ledger = of_a_layer();
  EXPECT_EQ(ledger["aten::addmm"].calls, 4);
  EXPECT_EQ(ledger["aten::mm"].calls, 8);
  EXPECT_EQ(ledger["terrace::squares"].calls, 1);
  EXPECT_LE(ledger["terrace::squares"].bytes, (elements + 1024) * 4);
  // Gradients of matrices from bf16 to fp32, where a GPU has products with results in fp32; heads in both directions.
  EXPECT_LE(ledger["aten::copy_"].bytes, matrices * (2 + 4) + 24 * hidden);
  Count all;
  for (const auto& [name, count] : ledger) {
    all.calls += count.calls;
    all.bytes += count.bytes;
  }
  EXPECT_LE(all.calls, 65);
  // The bytes are, for an element, 30 for AdamW and 4 for the norm; for a matrix two readings, its gradient and the
  // conversion; for hidden states 14 passes for norms, 20 for GELU, 9 for attention, 9 for sums, 3 for the residual
  // stream, 24 copies, and 16 for each of the three products, of which those within the feed-forward network count four
  // times.
  EXPECT_LE(all.bytes, elements * 34 + matrices * (2 * 2 + 2 + 6) + 127 * hidden);
}

}  // namespace
}  // namespace terrace::run
