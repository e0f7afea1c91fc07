// Compares each wire format and each route of a collective with direct calls: all bits, and all counted bytes.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "terrace/comm/threads/threads.h"
#include "terrace/config/wire_type.h"
#include "terrace/parallel/collective.h"
#include "tests/parallel/byte_format.h"

namespace terrace::parallel {
namespace {

// Bytes of a payload of n values, by the formula of docs/cost_model.md.
int64_t payload_bytes(int64_t n, int64_t block) { return n + 4 * ((n + block - 1) / block); }

// Sizes of the inner and outer groups. An inner group has neighbouring ranks, like the ranks of a node.
struct Grid {
  int64_t inner, outer;
  int64_t ranks() const { return inner * outer; }
};

const std::vector<Grid> grids = {{1, 1}, {2, 1}, {1, 2}, {3, 1}, {2, 2}, {4, 1}, {3, 2}, {2, 3}};

// The groups of one rank: the two of a route, and a single one with the ranks in the order of their blocks.
struct GridGroups {
  GridGroups(comm::World& world, const Grid& grid) {
    const int64_t own_inner = world.rank() % grid.inner, own_outer = world.rank() / grid.inner;
    std::vector<int64_t> of_blocks;
    for (int64_t i = 0; i < grid.inner; ++i) {
      for (int64_t j = 0; j < grid.outer; ++j) of_blocks.push_back(j * grid.inner + i);
    }
    inner = world.connect(mesh::spaced_ranks("inner", own_outer * grid.inner, grid.inner, 1));
    outer = world.connect(mesh::spaced_ranks("outer", own_inner, grid.outer, grid.inner));
    single = world.connect({"single", std::move(of_blocks)});
  }

  Route route() const { return {*inner, *outer}; }

  std::unique_ptr<comm::Comm> inner, outer, single;
};

using RankMain = std::function<void(GridGroups& groups, int64_t rank)>;

void on_ranks(const Grid& grid, const RankMain& rank_main) {
  at::set_num_threads(1);
  SCOPED_TRACE(fmt::format("{} inner x {} outer ranks", grid.inner, grid.outer));
  comm::run_threads(grid.ranks(), {.timeout_seconds = 60, .check_calls = true}, [&](comm::World& world) {
    GridGroups groups(world, grid);
    rank_main(groups, world.rank());
  });
}

// Integers whose sum over six ranks is at most 255, so that every order of summation and every format is exact.
at::Tensor whole_numbers(int64_t size, int64_t rank) {
  return at::arange(size, at::kLong).mul(7).add(3 * rank).remainder(43).to(at::kFloat);
}

// Numbers of at least 0 that no format with fewer bits can represent.
at::Tensor any_numbers(int64_t size, int64_t rank) {
  return at::sin(at::arange(size, at::kFloat).mul(0.37).add(static_cast<double>(rank))).add(1.0);
}

at::Tensor passed_through(const WireFormat& format, const at::Tensor& values) {
  at::Tensor arrived = at::empty_like(values);
  format.decode(format.encode(values, 1, {}), 1, arrived);
  return arrived;
}

TEST(WireFormats, ElementFormatsAreCasts) {
  const at::Tensor values = any_numbers(5, 0);
  const auto same = element_format(config::WireType::same), fp32 = element_format(config::WireType::fp32),
             bf16 = element_format(config::WireType::bf16);
  EXPECT_TRUE(at::equal(passed_through(*bf16, values), values.to(at::kBFloat16).to(at::kFloat)));
  EXPECT_TRUE(same->encode(values, 1, {}).is_same(values));
  EXPECT_EQ(same->bytes(5, at::kBFloat16), 10);
  EXPECT_EQ(fp32->bytes(5, at::kBFloat16), 20);
  EXPECT_EQ(bf16->bytes(5, at::kFloat), 10);
  EXPECT_TRUE(same->preserves(at::kHalf) && fp32->preserves(at::kFloat) && bf16->preserves(at::kBFloat16));
  EXPECT_FALSE(bf16->preserves(at::kFloat) || fp32->preserves(at::kBFloat16));
}

TEST(WireFormats, ByteFormatIsExactOn255thsOfTheLargestValue) {
  std::vector<at::Tensor> blocks;
  for (int64_t exponent = -3; exponent <= 3; ++exponent) {
    const at::Tensor numbers = at::cat({at::full({1}, 255.0F), whole_numbers(8, exponent + 3)});
    blocks.push_back(numbers.mul(std::exp2(static_cast<double>(exponent))));
  }
  const at::Tensor values = at::cat(blocks);
  EXPECT_TRUE(at::equal(passed_through(*byte_format(9), values), values));
}

const config::WireType quantized_types[] = {config::WireType::int8, config::WireType::int4, config::WireType::fp8};

TEST(WireFormats, QuantizedPayloadsHaveTheConfiguredSize) {
  for (const config::WireType type : quantized_types) {
    const auto format = wire_format(type, Rounding::nearest);
    EXPECT_FALSE(format->summable() || format->preserves(at::kFloat));
    for (const int64_t size : {1, 255, 256, 1025}) {
      EXPECT_EQ(format->bytes(size, at::kFloat), config::wire_bytes(type, size, 4));
      EXPECT_EQ(format->encode(any_numbers(3 * size, 0), 3, {}).numel(), 3 * format->bytes(size, at::kFloat));
    }
  }
}

TEST(WireFormats, RoundGradientsByTheDrawAndWeightsWithoutIt) {
  const at::Tensor values = any_numbers(1024, 0);
  const ops::RoundingDraw one{.key = {1, 2}}, other{.key = {1, 3}};
  for (const config::WireType type : quantized_types) {
    const auto weights = wire_format(type, Rounding::nearest), gradients = wire_format(type, Rounding::random);
    EXPECT_TRUE(at::equal(weights->encode(values, 1, one), weights->encode(values, 1, other)));
    EXPECT_FALSE(at::equal(gradients->encode(values, 1, one), gradients->encode(values, 1, other)));
  }
}

// The results of the communicator's own calls if each rank casts before and after them.
struct DirectCalls {
  at::Tensor cast(const at::Tensor& values) const { return values.to(wire).clone(); }

  at::Tensor reduce_scatter(comm::Comm& group, const at::Tensor& from) const {
    const at::Tensor sent = cast(from);
    at::Tensor sum = at::empty({from.numel() / group.size()}, wire);
    group.reduce_scatter(sent.const_data_ptr(), sum.mutable_data_ptr(), sum.numel(), comm_type(wire), {}).wait();
    return sum.to(from.scalar_type());
  }
  at::Tensor all_gather(comm::Comm& group, const at::Tensor& own) const {
    const at::Tensor sent = cast(own);
    at::Tensor whole = at::empty({own.numel() * group.size()}, wire);
    group.all_gather(sent.const_data_ptr(), whole.mutable_data_ptr(), own.numel(), comm_type(wire), {}).wait();
    return whole.to(own.scalar_type());
  }
  at::Tensor all_reduce(comm::Comm& group, const at::Tensor& data) const {
    if (group.size() == 1) return data;
    const at::Tensor sum = cast(data);
    group.all_reduce(sum.mutable_data_ptr(), sum.numel(), comm_type(wire), {}).wait();
    return sum.to(data.scalar_type());
  }

  at::ScalarType wire;
};

struct Results {
  at::Tensor sum_part, whole, sum;
};

Results moved_directly(comm::Comm& group, at::ScalarType wire, const at::Tensor& values) {
  const DirectCalls calls{wire};
  const int64_t n = values.numel() / group.size();
  return {calls.reduce_scatter(group, values), calls.all_gather(group, values.narrow(0, group.member() * n, n)),
          calls.all_reduce(group, values)};
}

Results moved(const Collective& collective, const at::Tensor& values) {
  const int64_t n = values.numel() / collective.route().size();
  Results results{at::empty({n}, values.options()), at::empty_like(values), values.clone()};
  collective.reduce_scatter(values, results.sum_part, {}).finish();
  collective.all_gather(values.narrow(0, collective.route().block() * n, n), results.whole, {}).finish();
  collective.all_reduce(results.sum, {}).finish();
  return results;
}

void expect_equal(const Results& results, const Results& expected) {
  EXPECT_TRUE(at::equal(results.sum_part, expected.sum_part)) << results.sum_part << expected.sum_part;
  EXPECT_TRUE(at::equal(results.whole, expected.whole));
  EXPECT_TRUE(at::equal(results.sum, expected.sum));
}

TEST(Collectives, ElementsInOneGroupMakeTheDirectCalls) {
  for (const int64_t ranks : {1, 2, 3, 4}) {
    on_ranks({ranks, 1}, [](GridGroups& groups, int64_t rank) {
      for (const at::ScalarType kept : {at::kFloat, at::kBFloat16}) {
        const at::Tensor values = any_numbers(7 * groups.single->size(), rank).to(kept);
        for (const auto type : {config::WireType::same, config::WireType::fp32, config::WireType::bf16}) {
          const auto format = element_format(type);
          for (comm::Comm* group : {groups.single.get(), groups.inner.get()}) group->reset_traffic();
          expect_equal(moved(Collective(format, *groups.inner), values),
                       moved_directly(*groups.single, format->payload_type(kept), values));
          for (const comm::Kind kind : used_kinds)
            EXPECT_EQ(counted(*groups.inner, kind), counted(*groups.single, kind));
        }
      }
    });
  }
}

TEST(Collectives, TwoHopsGiveTheBlocksOfASingleGroup) {
  for (const Grid& grid : grids) {
    on_ranks(grid, [](GridGroups& groups, int64_t rank) {
      const at::Tensor values = whole_numbers(70 * groups.single->size(), rank);
      const Results expected = moved_directly(*groups.single, at::kFloat, values);
      EXPECT_EQ(groups.route().block(), groups.single->member());
      for (const auto& format :
           {element_format(config::WireType::same), element_format(config::WireType::bf16), byte_format(48)}) {
        expect_equal(moved(Collective(format, groups.route()), values), expected);
      }
    });
  }
}

// Elements inside the nodes, bytes between them.
TEST(Collectives, TwoFormatsGiveTheSameSumsAndBlocks) {
  for (const Grid& grid : grids) {
    on_ranks(grid, [&](GridGroups& groups, int64_t rank) {
      for (const at::ScalarType kept : {at::kFloat, at::kBFloat16}) {
        const at::Tensor values = whole_numbers(70 * groups.single->size(), rank).to(kept);
        const Results expected = moved_directly(*groups.single, kept, values);
        for (const auto type : {config::WireType::same, config::WireType::fp32, config::WireType::bf16}) {
          const auto inside = element_format(type), between = byte_format(48);
          const Collective collective({inside, between}, groups.route());
          expect_equal(moved(collective, values), expected);
          EXPECT_EQ(collective.rounds_before_sums(), !inside->summable());
          if (grid.inner == 1 || grid.outer == 1) continue;
          EXPECT_FALSE(collective.preserves(kept));
          // A gather sends the own payload to each other node, and all of them as elements inside the node.
          groups.inner->reset_traffic();
          groups.outer->reset_traffic();
          const int64_t n = 70;
          at::Tensor whole = at::empty_like(values);
          collective.all_gather(values.narrow(0, groups.route().block() * n, n), whole, {}).finish();
          EXPECT_EQ(counted(*groups.outer, comm::Kind::all_gather).bytes, payload_bytes(n, 48) * (grid.outer - 1));
          EXPECT_EQ(
              counted(*groups.inner, comm::Kind::all_gather).bytes,
              n * grid.outer * static_cast<int64_t>(c10::elementSize(inside->payload_type(kept))) * (grid.inner - 1));
        }
      }
    });
  }
}

TEST(Collectives, BytesInOneGroupPassWholeNumbersExactly) {
  for (const int64_t ranks : {2, 3, 4}) {
    on_ranks({ranks, 1}, [](GridGroups& groups, int64_t rank) {
      for (const at::ScalarType kept : {at::kFloat, at::kBFloat16}) {
        const at::Tensor values = whole_numbers(70 * groups.single->size(), rank).to(kept);
        expect_equal(moved(Collective(byte_format(48), *groups.single), values),
                     moved_directly(*groups.single, kept, values));
      }
    });
  }
}

// Multiples of a power of two of which each block has the largest as its largest value: int4 and int8 of every rank
// pass exactly whatever the draws are, and so do their sums.
at::Tensor exact_numbers(int64_t size, int64_t rank, int64_t most) {
  const at::Tensor numbers = at::arange(size, at::kLong).mul(5).add(rank).remainder(2 * most + 1).sub(most);
  for (int64_t i = 0; i < size; i += 256) numbers[i].fill_(rank % 2 == 0 ? most : -most);
  return numbers.to(at::kFloat).mul(std::exp2(static_cast<double>(-rank)));
}

TEST(Collectives, QuantizedTypesPassExactNumbersExactly) {
  for (const int64_t ranks : {2, 3, 4}) {
    on_ranks({ranks, 1}, [](GridGroups& groups, int64_t rank) {
      for (const auto& [type, most] : {std::pair{config::WireType::int8, 127}, {config::WireType::int4, 7}}) {
        const at::Tensor values = exact_numbers(1024 * groups.single->size(), rank, most);
        const auto format = wire_format(type, Rounding::random);
        const Collective collective(format, *groups.single, {.key = {1, 2}});
        const Results expected = moved_directly(*groups.single, at::kFloat, values);
        const int64_t n = 1024;
        const at::Tensor sum = at::empty({n}), whole = at::empty_like(values);
        collective.reduce_scatter(values, sum, {}).finish();
        collective.all_gather(values.narrow(0, rank * n, n), whole, {}).finish();
        EXPECT_TRUE(at::equal(sum, expected.sum_part));
        EXPECT_TRUE(at::equal(whole, expected.whole));
      }
    });
  }
}

// The owner also uses the decoded values of its payload, and a second hop does not round again.
TEST(Collectives, BytesGatherTheSameRoundedValuesOnAllRanks) {
  for (const Grid& grid : grids) {
    on_ranks(grid, [&](GridGroups& groups, int64_t) {
      const auto format = byte_format(48);
      std::vector<at::Tensor> expected;
      for (int64_t block = 0; block < grid.ranks(); ++block) {
        expected.push_back(passed_through(*format, any_numbers(70, block)));
      }
      const at::Tensor whole = at::zeros({70 * grid.ranks()});
      const at::Tensor own = whole.narrow(0, groups.route().block() * 70, 70);
      own.copy_(any_numbers(70, groups.route().block()));
      Collective(format, groups.route()).all_gather(own, whole, {}).finish();
      EXPECT_TRUE(at::equal(whole, at::cat(expected)));
    });
  }
}

// Numbers of such different sizes that their sum depends on the order.
at::Tensor uneven_numbers(int64_t size, int64_t rank) {
  return any_numbers(size, rank).mul(rank % 2 == 1 ? std::exp2(24.0) : 1.0);
}

// The decoded elements [begin, begin + size) of all ranks, summed in the order of the ranks.
at::Tensor sum_of_decoded(const WireFormat& format, const std::vector<at::Tensor>& values, int64_t begin,
                          int64_t size) {
  at::Tensor sum = at::zeros({size});
  for (const at::Tensor& one : values) sum = sum.add(passed_through(format, one.narrow(0, begin, size)));
  return sum;
}

TEST(Collectives, BytesSumDecodedPartsInRankOrder) {
  for (const int64_t ranks : {2, 3, 4}) {
    on_ranks({ranks, 1}, [&](GridGroups& groups, int64_t rank) {
      const auto format = byte_format(48);
      std::vector<at::Tensor> all;
      for (int64_t member = 0; member < ranks; ++member) all.push_back(uneven_numbers(70 * ranks, member));
      const at::Tensor expected = sum_of_decoded(*format, all, rank * 70, 70);
      // The sum replaces the own block of its input, as for whole gradients that are kept.
      const at::Tensor values = all[static_cast<size_t>(rank)].clone(), own = values.narrow(0, rank * 70, 70);
      Collective(format, *groups.single).reduce_scatter(values, own, {}).finish();
      EXPECT_TRUE(at::equal(own, expected));
    });
  }
}

TEST(Collectives, BytesOverTwoHopsEncodeTheInnerFp32SumsAgain) {
  for (const Grid& grid : {Grid{2, 2}, Grid{3, 2}, Grid{2, 3}}) {
    on_ranks(grid, [&](GridGroups& groups, int64_t rank) {
      const auto format = byte_format(48);
      const int64_t own_inner = rank % grid.inner, own_outer = rank / grid.inner, of_inner = 70 * grid.outer;
      std::vector<at::Tensor> inner_sums;
      for (int64_t j = 0; j < grid.outer; ++j) {
        std::vector<at::Tensor> of_group;
        for (int64_t i = 0; i < grid.inner; ++i) {
          of_group.push_back(any_numbers(70 * grid.ranks(), j * grid.inner + i));
        }
        inner_sums.push_back(sum_of_decoded(*format, of_group, own_inner * of_inner, of_inner));
      }
      const at::Tensor sum = at::zeros({70});
      Collective(format, groups.route()).reduce_scatter(any_numbers(70 * grid.ranks(), rank), sum, {}).finish();
      EXPECT_TRUE(at::equal(sum, sum_of_decoded(*format, inner_sums, own_outer * 70, 70)));
    });
  }
}

TEST(Traffic, ScaledBytesInOneGroupEqualTheFormula) {
  for (const int64_t ranks : {1, 2, 3, 4}) {
    on_ranks({ranks, 1}, [&](GridGroups& groups, int64_t rank) {
      for (const int64_t n : {1, 47, 48, 70, 1024}) {
        groups.single->reset_traffic();
        moved(Collective(byte_format(48), *groups.single), whole_numbers(n * ranks, rank));
        const int64_t calls = ranks > 1 ? 2 : 1;  // the all-reduce makes one call of each kind, and none on one rank
        const Count expected{calls, calls * (ranks - 1) * payload_bytes(n, 48)};
        EXPECT_EQ(counted(*groups.single, comm::Kind::all_to_all), expected);
        EXPECT_EQ(counted(*groups.single, comm::Kind::all_gather), expected);
        EXPECT_EQ(counted(*groups.single, comm::Kind::reduce_scatter), Count{});
      }
    });
  }
}

TEST(Traffic, QuantizedTypesSendTheSizeOfTheirPayloads) {
  for (const int64_t ranks : {2, 3, 4}) {
    on_ranks({ranks, 1}, [&](GridGroups& groups, int64_t rank) {
      for (const config::WireType type : quantized_types) {
        for (const int64_t n : {1, 255, 1024}) {
          groups.single->reset_traffic();
          moved(Collective(wire_format(type, Rounding::random), *groups.single), any_numbers(n * ranks, rank));
          const Count expected{2, 2 * (ranks - 1) * config::wire_bytes(type, n, 4)};
          EXPECT_EQ(counted(*groups.single, comm::Kind::all_to_all), expected);
          EXPECT_EQ(counted(*groups.single, comm::Kind::all_gather), expected);
        }
      }
    });
  }
}

TEST(Traffic, ScaledBytesOverTwoHopsEqualTheFormula) {
  for (const Grid& grid : grids) {
    if (grid.inner == 1 || grid.outer == 1) continue;
    on_ranks(grid, [&](GridGroups& groups, int64_t rank) {
      for (const int64_t n : {1, 47, 48, 70, 1024}) {
        for (comm::Comm* group : {groups.inner.get(), groups.outer.get()}) group->reset_traffic();
        moved(Collective(byte_format(48), groups.route()), whole_numbers(n * grid.ranks(), rank));
        const int64_t payload = payload_bytes(n, 48), payload_of_outer = payload_bytes(grid.outer * n, 48);
        // Twice: alone and in the all-reduce.
        EXPECT_EQ(counted(*groups.inner, comm::Kind::all_to_all), (Count{2, 2 * (grid.inner - 1) * payload_of_outer}));
        EXPECT_EQ(counted(*groups.outer, comm::Kind::all_to_all), (Count{2, 2 * (grid.outer - 1) * payload}));
        EXPECT_EQ(counted(*groups.outer, comm::Kind::all_gather), (Count{2, 2 * (grid.outer - 1) * payload}));
        EXPECT_EQ(counted(*groups.inner, comm::Kind::all_gather),
                  (Count{2, 2 * (grid.inner - 1) * grid.outer * payload}));
      }
    });
  }
}

}  // namespace
}  // namespace terrace::parallel
