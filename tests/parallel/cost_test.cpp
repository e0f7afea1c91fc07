// Compares counted calls, bytes on the wire and bytes in memory with the formulas of docs/cost_model.md and
// docs/sharding.md, to the byte, for every layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/parallel/count.h"
#include "tests/parallel/training.h"

namespace terrace::parallel {
namespace {

using Counts = std::map<std::string, Count>;

// The symbols of the formulas.
struct Formula {
  Formula(const Training& training, const Layout& layout) : training(training) {
    const config::LayoutConfig config = layout_config(layout, false);
    const mesh::Mesh mesh = schedule::mesh_of(config, layout.ranks, layout.ranks);
    const mesh::ShardSizes sizes = mesh::shard_sizes(config, mesh);
    gather_type = config.gather_type, reduce_type = config.reduce_type, update_type = config.update_type;
    const int64_t alignment = quantized(gather_type) || quantized(reduce_type) || quantized(update_type) ? 256 : 32;
    w = sizes.weights, g = sizes.gradients, o = sizes.optimizer, d = sizes.ranks;
    feeds_back = config.error_feedback;
    node_type = config.node_type;
    ranks_of_node = config.ranks_per_node > 0 ? config.ranks_per_node : layout.ranks;
    node = config.route == config::Routing::rails ? config.ranks_per_node : 1;
    prefetch = config.prefetch + (1 < node && node < w ? 1 : 0);  // the first hop is one segment ahead of the second
    value_bytes = training.precision == config::Precision::fp32 ? 4 : 2;
    micro_batches = training.micro_batch > 0 ? training.sequences / d / training.micro_batch : 1;
    const schedule::UnitTable table = small_table(training);
    for (const schedule::Segment& segment : schedule::partition(table, 1, {}).segments) {
      int64_t elements = 0;
      for (const auto& parameter : schedule::segment_parameters(table, segment)) {
        elements += (schedule::elements(parameter.mark) + alignment - 1) / alignment * alignment;
      }
      segments.push_back((elements + d * 1024 - 1) / (d * 1024) * d * 1024);
      reads.push_back(segment.reads);
    }
  }

  int64_t total() const { return std::accumulate(segments.begin(), segments.end(), int64_t{0}); }
  int64_t with_parameters() const {
    return std::ranges::count_if(segments, [](int64_t elements) { return elements > 0; });
  }

  static bool quantized(config::WireType type) {
    return type == config::WireType::int8 || type == config::WireType::int4 || type == config::WireType::fp8;
  }
  // The payload of values that fill blocks of 256: one byte or half a byte for each, and four bytes for each block.
  static int64_t payload(config::WireType type, int64_t values, int64_t kept_bytes) {
    if (!quantized(type))
      return values * (type == config::WireType::same ? kept_bytes : type == config::WireType::bf16 ? 2 : 4);
    return (type == config::WireType::int4 ? values / 2 : values) + values / 64;
  }

  Counts traffic() const {
    Counts counts;
    const auto add = [&](const char* group, int64_t calls, int64_t bytes) {
      if (calls > 0) counts[group] = {calls, bytes};
    };
    // Adds `calls` calls on `values` in all, of which `bytes_of(whether inside a node)` is the payload, among ranks
    // that differ from `inner` to `outer`. By rails, m = node / inner of them are in a node: each sends (m - 1) / m of
    // the payload inside it, and of one part in m to the other nodes.
    const auto add_hops = [&](const std::string& group, int64_t calls, int64_t values, int64_t inner, int64_t outer,
                              const auto& bytes_of) {
      const int64_t ranks = outer / inner;
      if (inner >= node || node >= outer) {
        return add(group.c_str(), calls, bytes_of(lies_in_node(outer))(values) * (ranks - 1) / ranks);
      }
      const int64_t m = node / inner, nodes = outer / node;
      add((group + "_node").c_str(), calls, bytes_of(true)(values) * (m - 1) / m);
      add((group + "_rails").c_str(), calls, bytes_of(false)(values / m) * (nodes - 1) / nodes);
    };
    const auto reduced = [&](bool inside) {
      return [this, inside](int64_t values) { return payload(type_of(reduce_type, inside), values, 4); };
    };
    const auto weights_of = [&](config::WireType type) {
      return [this, type](bool inside) {
        return [this, type, inside](int64_t values) { return payload(type_of(type, inside), values, value_bytes); };
      };
    };
    const int64_t all = with_parameters(), n = total();
    if (w > 1) {
      // Once for forward and once for backward; the last segment once for both, with a tied segment once more.
      int64_t calls = 0, elements = 0;
      for (size_t segment = 0; segment < segments.size(); ++segment) {
        if (segments[segment] == 0) continue;
        const int64_t times = (segment + 1 == segments.size() ? 1 : 2) + (is_tied(segment) ? 1 : 0);
        calls += times;
        elements += times * segments[segment];
      }
      add_hops("shard_weights", micro_batches * calls, micro_batches * elements, 1, w, weights_of(gather_type));
    }
    if (g > 1) add_hops("shard_gradients", micro_batches * all, micro_batches * n, 1, g, reduced);
    if (o > g) add_hops("shard_optimizer", all, n / g, g, o, reduced);
    // A quantized all-reduce is two calls.
    if (d > o) {
      const bool inside = lies_in_node(d);
      add("replicas", quantized(type_of(reduce_type, inside)) ? 2 * all : all,
          2 * reduced(inside)(n / o) * (d / o - 1) / (d / o));
    }
    if (o > w) {
      add_hops("update", all, n / w, w, o, weights_of(update_type));
    }
    if (d > 1) add("data", 1, optim::exact_words * 8 * (d - 1));
    return counts;
  }

  StateBytes memory() const {
    StateBytes bytes{.weights = total() / w * value_bytes, .gradients = total() / g * 4};
    // An int8 code for each element that is reduced, with the scales.
    if (feeds_back) {
      // The sums that are rounded between nodes are those of several ranks if they go by rails.
      const auto feeds = [&](int64_t inner, int64_t outer) {
        const bool hops = inner < node && node < outer;
        return outer > inner && quantized(type_of(reduce_type, hops || lies_in_node(outer)));
      };
      const int64_t reduced =
          (feeds(1, g) ? total() : 0) + (feeds(g, o) ? total() / g : 0) + (feeds(o, d) ? total() / o : 0);
      bytes.feedback = payload(config::WireType::int8, reduced, 0);
    }
    for (int64_t segment = 0; segment < static_cast<int64_t>(segments.size()); ++segment) {
      if (w > 1) {
        bytes.gathered_weights = std::max({bytes.gathered_weights, value_bytes * elements_of(segment, +1, prefetch),
                                           value_bytes * elements_of(segment, -1, prefetch)});
      }
      // A segment's gradient is reduced while the gradient of the segment before it is computed; the gradient of a tied
      // segment exists from the last segment on. During the last segment, the reduction of segment 0 of the previous
      // micro-batch may not have ended.
      if (g == 1) continue;
      std::set<int64_t> held = {segment};
      if (segment + 1 < static_cast<int64_t>(segments.size())) held.insert(segment + 1);
      for (const int64_t used : reads.back()) {
        if (is_tied(used) && used <= segment) held.insert(used);
      }
      if (micro_batches > 1 && segment + 1 == static_cast<int64_t>(segments.size())) held.insert(0);
      bytes.whole_gradients = std::max(bytes.whole_gradients, 4 * sum_of(held));
    }
    return bytes;
  }

  int64_t optimizer_bytes() const { return total() / o * (training.precision == config::Precision::fp32 ? 8 : 12); }

  Training training;
  int64_t w, g, o, d, node, prefetch, value_bytes, micro_batches;
  config::WireType gather_type, reduce_type, update_type;
  config::NodeType node_type;
  int64_t ranks_of_node;
  bool feeds_back;
  std::vector<int64_t> segments;  // elements, padded
  std::vector<std::vector<int64_t>> reads;

 private:
  bool lies_in_node(int64_t outer) const { return ranks_of_node % outer == 0; }
  config::WireType type_of(config::WireType type, bool inside) const {
    if (!inside || !quantized(type) || node_type == config::NodeType::as_others) return type;
    return node_type == config::NodeType::bf16   ? config::WireType::bf16
           : node_type == config::NodeType::same ? config::WireType::same
                                                 : config::WireType::fp32;
  }

  bool is_tied(int64_t segment) const {
    const auto& last = reads.back();
    return segment + 1 != static_cast<int64_t>(segments.size()) && std::ranges::find(last, segment) != last.end();
  }

  // The segments that are gathered at one time: the segment in use and those gathered ahead.
  int64_t elements_of(int64_t segment, int64_t direction, int64_t ahead) const {
    std::set<int64_t> held;
    for (int64_t k = 0; k <= ahead; ++k) {
      const int64_t other = segment + direction * k;
      if (other < 0 || other >= static_cast<int64_t>(segments.size())) continue;
      held.insert(reads[other].begin(), reads[other].end());
    }
    return sum_of(held);
  }

  int64_t sum_of(const std::set<int64_t>& held) const {
    int64_t sum = 0;
    for (const int64_t one : held) sum += segments[one];
    return sum;
  }
};

Counts counted_groups(const std::map<std::string, std::map<comm::Kind, comm::Traffic>>& traffic) {
  Counts counts;
  for (const auto& [group, kinds] : traffic) {
    const Count count = counted(kinds);
    if (count.bytes > 0) counts[group] = count;  // none in groups of one
  }
  return counts;
}

std::vector<Training> trainings() {
  return {{.model = "gpt2", .deterministic = false},
          {.model = "llama", .precision = config::Precision::bf16, .micro_batch = 1, .deterministic = false},
          {.model = "tied_stack", .deterministic = false}};
}

TEST(Traffic, EqualsTheCostModelToTheByte) {
  for (const Training& training : trainings()) {
    for (const Layout& layout : all_layouts()) {
      SCOPED_TRACE(training.model + " on " + layout.name());
      const Outcome outcome = train(training, layout);
      const Counts expected = Formula(training, layout).traffic();
      for (const auto& of_rank : outcome.traffic) EXPECT_EQ(counted_groups(of_rank), expected);
    }
  }
}

TEST(Traffic, QuantizedMovementsEqualTheCostModelToTheByte) {
  for (const Training& training : trainings()) {
    for (const std::vector<std::string>& types :
         {std::vector<std::string>{"gather_type=int8", "reduce_type=int4", "update_type=fp8"},
          std::vector<std::string>{"gather_type=int4", "reduce_type=fp8", "update_type=bf16"},
          std::vector<std::string>{"gather_type=int8", "reduce_type=int4", "update_type=int8", "node_type=bf16"},
          std::vector<std::string>{"reduce_type=int8", "update_type=int4", "node_type=same"}}) {
      for (const Layout& some : some_layouts()) {
        const Layout layout = some.with(types);
        SCOPED_TRACE(training.model + " on " + layout.name());
        const Outcome outcome = train(training, layout);
        const Counts expected = Formula(training, layout).traffic();
        for (const auto& of_rank : outcome.traffic) EXPECT_EQ(counted_groups(of_rank), expected);
      }
    }
  }
}

TEST(Memory, EqualsThePageOnShardingToTheByte) {
  for (const Training& training : trainings()) {
    std::vector<Layout> layouts = all_layouts();
    for (const Layout& layout : feedback_layouts()) layouts.push_back(layout);
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(training.model + " on " + layout.name());
      const Outcome outcome = train(training, layout);
      const Formula formula(training, layout);
      for (const StateBytes& bytes : outcome.peak_bytes) {
        EXPECT_EQ(bytes.weights, formula.memory().weights);
        EXPECT_EQ(bytes.gathered_weights, formula.memory().gathered_weights);
        EXPECT_EQ(bytes.gradients, formula.memory().gradients);
        EXPECT_EQ(bytes.whole_gradients, formula.memory().whole_gradients);
        EXPECT_EQ(bytes.feedback, formula.memory().feedback);
      }
      for (const StateBytes& bytes : outcome.bytes) EXPECT_EQ(bytes.gathered_weights + bytes.whole_gradients, 0);
      for (const int64_t bytes : outcome.optimizer_bytes) EXPECT_EQ(bytes, formula.optimizer_bytes());
    }
  }
}

}  // namespace
}  // namespace terrace::parallel
