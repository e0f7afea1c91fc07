// Compares the times of products and units with values worked out by hand on a machine with round figures.
#include "terrace/plan/time/unit_time.h"

#include <gtest/gtest.h>

#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

using config::Precision;
using schedule::Operation;
using schedule::Operations;
using schedule::TensorCollective;

double seconds_of(int64_t m, int64_t n, int64_t k, int64_t count, const machine::Machine& machine) {
  Operation products = schedule::matrix_product("", m, n, k, 2);
  products.bytes *= static_cast<double>(count);
  products.count = count;
  return product_seconds(products, Precision::bf16, machine.device);
}

TEST(ProductSeconds, CountWholeTilesOnAllComputeUnits) {
  const machine::Machine machine = computing_machine();
  // 8 x 4 is one tile for each of two units: 2 * 16 * 10 FLOPs at 500 FLOP/s.
  EXPECT_DOUBLE_EQ(seconds_of(8, 4, 10, 1, machine), 0.64);
  // A row more makes three tiles and a second round, as four would.
  EXPECT_DOUBLE_EQ(seconds_of(9, 4, 10, 1, machine), 1.28);
  EXPECT_DOUBLE_EQ(seconds_of(16, 4, 10, 1, machine), 1.28);
  // Products of one call share the rounds.
  EXPECT_DOUBLE_EQ(seconds_of(4, 4, 10, 2, machine), 0.64);
  EXPECT_DOUBLE_EQ(seconds_of(4, 4, 10, 3, machine), 1.28);
}

TEST(ProductSeconds, TakeTheFastestTile) {
  machine::Machine machine = computing_machine();
  machine.device.tiles.push_back({.rows = 2, .columns = 4, .efficiency = 0.5});
  // Two small tiles in one round at half of the rate, where one of the large tiles would leave a unit without work.
  EXPECT_DOUBLE_EQ(seconds_of(4, 4, 10, 1, machine), 2.0 * 8 * 10 / 250);
  machine.device.tiles.back().efficiency = 0.4;
  EXPECT_DOUBLE_EQ(seconds_of(4, 4, 10, 1, machine), 0.64);
}

TEST(ProductSeconds, GrowByTheBeginOfATileAndByTheKernel) {
  machine::Machine machine = computing_machine();
  machine.device.tile_start = 5;
  machine.device.kernel_seconds = 1;
  EXPECT_DOUBLE_EQ(seconds_of(8, 4, 10, 1, machine), 0.96 + 1);
}

TEST(ProductSeconds, TakeTheTimeOfMemoryWhereItIsSlower) {
  machine::Machine machine = small_machine();
  // 8 * 2 + 2 * 4 + 8 * 4 elements of 2 bytes at 100 bytes/s, where computing takes 0.128 s.
  EXPECT_DOUBLE_EQ(seconds_of(8, 4, 2, 1, machine), 1.12);
  EXPECT_DOUBLE_EQ(product_seconds(schedule::matrix_product("", 8, 4, 2, 4), Precision::fp32, machine.device), 2.24);
}

Operations one_layer() {
  const Operation product = schedule::matrix_product("product", 8, 4, 10, 2);
  const Operation attention{.kind = Operation::Kind::attention, .m = 4, .n = 4, .k = 5, .count = 2};
  const Operation elements{.kind = Operation::Kind::elements, .count = 3, .bytes = 200};
  return {.forward = {product, attention, elements},
          .input_gradient = {product, elements},
          .weight_gradient = {product},
          .forward_collectives = {{.bytes = 60, .count = 2, .meanwhile = TensorCollective::Meanwhile::next_piece}}};
}

TEST(UnitTime, SumsItsOperations) {
  const machine::Machine machine = small_machine();
  const machine::Software software;
  const UnitTime time = unit_time(one_layer(), config::Recompute::none,
                                  {.machine = machine, .software = software, .precision = Precision::bf16});
  // The product reads and writes (80 + 40 + 32) * 2 bytes; attention computes 4 * 4 * 4 * 5 * 2 FLOPs at 1000 FLOP/s.
  EXPECT_DOUBLE_EQ(time.forward.of(TimeKind::products), 3.04);
  EXPECT_DOUBLE_EQ(time.forward.of(TimeKind::attention), 0.64);
  EXPECT_DOUBLE_EQ(time.forward.of(TimeKind::elements), 2);
  EXPECT_DOUBLE_EQ(time.forward.total(), 5.68);
  EXPECT_DOUBLE_EQ(time.input_gradient.total(), 5.04);
  EXPECT_DOUBLE_EQ(time.weight_gradient.total(), 3.04);
}

TEST(UnitTime, TakesTheTimeOfLaunchesWhereTheyTakeLonger) {
  machine::Machine machine = small_machine();
  machine.device.launch_seconds = 3;
  machine::Software software;
  software.forward_kernels = 4;
  const UnitTime time = unit_time(one_layer(), config::Recompute::none,
                                  {.machine = machine, .software = software, .precision = Precision::bf16});
  EXPECT_DOUBLE_EQ(time.forward.total(), (4 + 2) * 3);  // and not their sum with the 5.68 s of the device
  EXPECT_DOUBLE_EQ(time.forward.of(TimeKind::launches), 18 - 5.68);
}

TEST(UnitTime, RepeatsWhatRecomputeRepeats) {
  const machine::Machine machine = small_machine();
  const machine::Software software;
  const ComputingRank rank{.machine = machine, .software = software, .precision = Precision::bf16};
  const double plain = unit_time(one_layer(), config::Recompute::none, rank).input_gradient.total();
  const auto more = [&](config::Recompute recompute) {
    return unit_time(one_layer(), recompute, rank).input_gradient.total() - plain;
  };
  EXPECT_NEAR(more(config::Recompute::full), 5.68, 1e-12);
  EXPECT_NEAR(more(config::Recompute::selective), 0.64, 1e-12);
}

// Products have factors of one byte and results of two: (80 + 40) + 2 * 32 = 184 bytes, at 100 bytes/s. Forward reads
// both factors with two bytes an element and writes them twice with one: 4 * (80 + 40) = 480 bytes; an input gradient
// does so with the first one, 4 * 80 bytes. A weight gradient finds its factors quantized.
TEST(UnitTime, QuantizesTheFactorsOfProductsInFp8) {
  machine::Machine machine = small_machine();
  machine.device.fp8 = {.peak = 4000, .achievable = 2000};
  const machine::Software software;
  const ComputingRank rank{
      .machine = machine, .software = software, .precision = Precision::bf16, .products = BlockProducts::fp8};
  const UnitTime time = unit_time(one_layer(), config::Recompute::none, rank);
  EXPECT_DOUBLE_EQ(time.forward.of(TimeKind::products), 1.84);
  EXPECT_DOUBLE_EQ(time.forward.of(TimeKind::attention), 0.64);
  EXPECT_DOUBLE_EQ(time.forward.of(TimeKind::elements), 2 + 4.8);
  EXPECT_DOUBLE_EQ(time.forward.memory_bytes, 184 + 480 + 200);
  EXPECT_DOUBLE_EQ(time.input_gradient.total(), 1.84 + 2 + 3.2);
  EXPECT_DOUBLE_EQ(time.weight_gradient.total(), 1.84);
  // The product, two quantizations and attention are launched in 12 s, while the device works for 9.28 s.
  machine.device.launch_seconds = 3;
  EXPECT_DOUBLE_EQ(unit_time(one_layer(), config::Recompute::none, rank).forward.of(TimeKind::launches), 12 - 9.28);
}

TEST(UnitTime, ComputesProductsInFp8AtTheirRate) {
  machine::Machine machine = computing_machine();
  machine.device.fp8 = {.peak = 4000, .achievable = 2000};
  machine.device.kernel_seconds = 1;
  const machine::Software software;
  const UnitTime time = unit_time(
      {.forward = {schedule::matrix_product("", 8, 4, 10, 2)}}, config::Recompute::none,
      {.machine = machine, .software = software, .precision = Precision::bf16, .products = BlockProducts::fp8});
  // One tile for each of two units: 2 * 16 * 10 FLOPs at 1000 FLOP/s.
  EXPECT_DOUBLE_EQ(time.forward.of(TimeKind::products), 0.32 + 1);
  EXPECT_DOUBLE_EQ(time.forward.of(TimeKind::elements), 2);  // two kernels
}

TEST(UnitTime, WaitsForSumsOverTensorRanks) {
  const machine::Machine machine = small_machine();
  machine::Software software;
  ComputingRank rank{.machine = machine, .software = software, .precision = Precision::bf16};
  rank.tensor_collective = [](TensorCollective::Kind, double bytes) { return bytes / 10; };
  EXPECT_DOUBLE_EQ(unit_time(one_layer(), config::Recompute::none, rank).forward.of(TimeKind::tensor_sums), 6);
  software.sums_while_computing = true;
  // Products of 3.04 s hide the first of the two sums, and not all of it where it takes longer.
  EXPECT_DOUBLE_EQ(unit_time(one_layer(), config::Recompute::none, rank).forward.of(TimeKind::tensor_sums), 3);
  rank.tensor_collective = [](TensorCollective::Kind, double bytes) { return bytes / 5; };
  EXPECT_DOUBLE_EQ(unit_time(one_layer(), config::Recompute::none, rank).forward.of(TimeKind::tensor_sums), 12 - 3.04);
}

TEST(UnitTime, CountsTheWholeTimeOfSumsOverTensorRanks) {
  const machine::Machine machine = small_machine();
  machine::Software software;
  ComputingRank rank{.machine = machine, .software = software, .precision = Precision::bf16};
  rank.tensor_collective = [](TensorCollective::Kind, double bytes) { return bytes / 10; };
  for (const bool hides : {false, true}) {
    software.sums_while_computing = hides;
    UnitTime time = unit_time(one_layer(), config::Recompute::full, rank);
    EXPECT_DOUBLE_EQ(time.forward.tensor_seconds, 6);
    EXPECT_DOUBLE_EQ(time.input_gradient.tensor_seconds, 6);  // of the forward that is repeated
    time.forward += time.input_gradient;
    EXPECT_DOUBLE_EQ((time.forward *= 4).tensor_seconds, 48);
  }
}

TEST(UnitTime, CountsPassesOverAttentionScoresInMemory) {
  const machine::Machine machine = small_machine();
  machine::Software software;
  software.fused_attention = false;
  software.score_passes = 3;
  const Operations attention{.forward = {{.kind = Operation::Kind::attention, .m = 4, .n = 4, .k = 10, .count = 2}}};
  const UnitTime time = unit_time(attention, config::Recompute::none,
                                  {.machine = machine, .software = software, .precision = Precision::bf16});
  // Two products [4, 10] x [10, 4] and [4, 4] x [4, 10], each twice, limited by memory: 2 * 2 * (40 + 40 + 16) bytes
  // each; and 3 passes over 2 * 16 scores.
  EXPECT_DOUBLE_EQ(time.forward.total(), 2 * 3.84 + 3 * 0.64);
}

TEST(UnitTime, StopsRecomputeBeforeTheLastProductIfTheProgramDoes) {
  const machine::Machine machine = small_machine();
  machine::Software software;
  Operations ffn = one_layer();
  ffn.forward.push_back(schedule::matrix_product("ffn second", 10, 8, 4, 2));
  ffn.forward.push_back(schedule::memory_pass("add bias", 500));
  ffn.forward_collectives = {{.bytes = 60}, {.bytes = 30}};
  const auto repeated = [&] {
    const ComputingRank rank{.machine = machine,
                             .software = software,
                             .precision = Precision::bf16,
                             .tensor_collective = [](TensorCollective::Kind, double bytes) { return bytes / 100; }};
    return unit_time(ffn, config::Recompute::full, rank).input_gradient.total() -
           unit_time(ffn, config::Recompute::none, rank).input_gradient.total();
  };
  EXPECT_DOUBLE_EQ(repeated(), 5.68 + 3.04 + 5 + 0.9);
  software.stops_recompute = true;
  EXPECT_DOUBLE_EQ(repeated(), 5.68 + 0.6);
}

TEST(UnitTime, CopiesSequencesAndPassesOverMemoryAsTheProgramDoes) {
  machine::Machine machine = small_machine();
  machine.device.products[static_cast<size_t>(Precision::bf16)].passes = 25;
  machine::Software software;
  const auto seconds = [&](std::string_view name) {
    return unit_time({.forward = {schedule::memory_pass(name, 200)}}, config::Recompute::none,
                     {.machine = machine, .software = software, .precision = Precision::bf16})
        .forward.total();
  };
  EXPECT_DOUBLE_EQ(seconds("norm"), 8);
  software.passes_like_copies = true;
  EXPECT_DOUBLE_EQ(seconds("norm"), 2);
  EXPECT_DOUBLE_EQ(seconds("reorder"), 2);
  software.copies_sequences = false;
  EXPECT_DOUBLE_EQ(seconds("norm"), 2);
  EXPECT_DOUBLE_EQ(seconds("reorder"), 0);
  EXPECT_DOUBLE_EQ(seconds("concatenate"), 0);
}

TEST(UnitTime, RepeatsAShareOfTheProductsIfTheProgramDoes) {
  const machine::Machine machine = small_machine();
  machine::Software software;
  software.selective_products = 0.5;
  const ComputingRank rank{.machine = machine, .software = software, .precision = Precision::bf16};
  const auto seconds = [&](config::Recompute recompute) {
    return unit_time(one_layer(), recompute, rank).input_gradient.total();
  };
  // Half of the product of 3.04 s, and the passes of 2 s.
  EXPECT_DOUBLE_EQ(seconds(config::Recompute::selective) - seconds(config::Recompute::none), 1.52 + 2);
}

TEST(UnitTime, PassesOverScoresMoreOftenInBackwardIfTheProgramDoes) {
  const machine::Machine machine = small_machine();
  machine::Software software;
  software.fused_attention = false;
  software.score_passes = 3;
  const Operations attention{
      .input_gradient = {{.kind = Operation::Kind::attention, .m = 4, .n = 4, .k = 10, .count = 2, .backward = true}}};
  const auto seconds = [&] {
    return unit_time(attention, config::Recompute::none,
                     {.machine = machine, .software = software, .precision = Precision::bf16})
        .input_gradient.total();
  };
  // The products of forward twice, as above, and as many passes as in forward.
  EXPECT_DOUBLE_EQ(seconds(), 4 * 3.84 + 3 * 0.64);
  software.backward_score_passes = 5;
  EXPECT_DOUBLE_EQ(seconds(), 4 * 3.84 + 5 * 0.64);
}

TEST(UnitTime, PassesOverActivationsAsOftenAsTheProgram) {
  const machine::Machine machine = small_machine();
  machine::Software software;
  software.element_passes = 2;
  // GELU's own kernel reads and writes 100 bytes each, SwiGLU's reads a pair and writes; within a product both write
  // only.
  const auto seconds = [&](std::string_view name, double bytes, int64_t kernels) {
    const Operations ffn{.forward = {schedule::memory_pass(name, bytes, kernels)}};
    return unit_time(ffn, config::Recompute::none,
                     {.machine = machine, .software = software, .precision = Precision::bf16})
        .forward.total();
  };
  EXPECT_DOUBLE_EQ(seconds("gelu", 200, 1), 2 * 2);
  software.activation_passes = 23;
  EXPECT_DOUBLE_EQ(seconds("gelu", 200, 1), 23);
  EXPECT_DOUBLE_EQ(seconds("gelu", 100, 0), 23);
  EXPECT_DOUBLE_EQ(seconds("swiglu", 300, 1), 23);
  EXPECT_DOUBLE_EQ(seconds("norm", 200, 1), 2 * 2);
}

TEST(UnitTime, CountsTheBytesOfTheLossForEachLogit) {
  const machine::Machine machine = small_machine();
  machine::Software software;
  // Chunks of eight and of four tokens, of a vocabulary of five.
  const Operation logits = schedule::matrix_product("logits", 8, 5, 10, 2),
                  rest = schedule::matrix_product("logits", 4, 5, 10, 2);
  const Operations head{
      .forward = {logits, schedule::memory_pass("cross_entropy", 80), rest, schedule::memory_pass("cross_entropy", 40)},
      .input_gradient = {logits, rest}};
  const auto elements = [&] {
    const UnitTime time = unit_time(head, config::Recompute::none,
                                    {.machine = machine, .software = software, .precision = Precision::bf16});
    EXPECT_EQ(time.input_gradient.of(TimeKind::elements), 0);
    return time.forward.of(TimeKind::elements);
  };
  EXPECT_DOUBLE_EQ(elements(), 1.2);
  software.logit_bytes = 50;
  EXPECT_DOUBLE_EQ(elements(), 50 * 12 * 5 / 100.0);
}

TEST(UnitTime, BytesOfMemoryWithThePassesOfTheProgram) {
  const machine::Machine machine = small_machine();
  machine::Software software;
  software.element_passes = 1.5;
  software.score_passes = 3;
  const auto bytes = [&] {
    const ComputingRank rank{.machine = machine, .software = software, .precision = Precision::bf16};
    return unit_time(one_layer(), config::Recompute::none, rank).forward.memory_bytes;
  };
  EXPECT_DOUBLE_EQ(bytes(), 304 + 1.5 * 200);
  software.fused_attention = false;
  EXPECT_DOUBLE_EQ(bytes(), 304 + 1.5 * 200 + 3 * 4 * 4 * 2 * 2);  // scores of two heads, of 2 bytes each
}

}  // namespace
}  // namespace terrace::plan
