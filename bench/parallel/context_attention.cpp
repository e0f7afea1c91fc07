// Times causal attention, forward and backward, of sequences whose positions are cut over ranks that are threads with
// one core each, beside ranks that each compute the whole sequence by themselves at the same time. Prints JSON: for
// each round the seconds of the slowest rank. Usage: bench_parallel_context_attention ROUTE RANKS TOKENS_OF_RANK ROUNDS
// [TYPE] [HEADS] [KEY_HEADS] [HEAD_DIM], with ROUTE ring, gather, heads or whole.
#include "terrace/ops/attention/context_attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "terrace/comm/threads/threads.h"
#include "terrace/mesh/rank_list.h"
#include "terrace/parallel/comm_ranks.h"

namespace {

using namespace terrace;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string route = "ring";
  int64_t ranks = 2, tokens = 4096, rounds = 3;
  at::ScalarType type = at::kFloat;
  ops::HeadLayout layout;
};

ops::ContextRoute route_of(const std::string& name) {
  return name == "gather"  ? ops::ContextRoute::gather
         : name == "heads" ? ops::ContextRoute::heads
                           : ops::ContextRoute::ring;
}

// One forward and backward of this rank.
void attend(const at::Tensor& joint, const at::Tensor& gradient, const Settings& settings,
            const ops::RotaryTable& table, const ops::ContextCut& cut) {
  joint.mutable_grad().reset();
  ops::TokenPlaces places;
  places.table = &table;
  const ops::SelfAttention attention{.layout = settings.layout};
  const at::Tensor context = settings.route == "whole" ? ops::self_attention(joint, attention, places, {}, "")
                                                       : ops::context_attention(joint, attention, places, {}, "", cut);
  context.backward(gradient);
}

std::vector<double> seconds_of(const Settings& settings) {
  const int64_t length = settings.ranks * settings.tokens, own = settings.route == "whole" ? length : settings.tokens;
  std::vector<double> slowest(static_cast<size_t>(settings.rounds));
  comm::run_threads(settings.ranks, {}, [&](comm::World& world) {
    at::set_num_threads(1);
    const auto group = world.connect(mesh::all_ranks("context", settings.ranks));
    parallel::CommRanks ranks(*group);
    const ops::ContextCut cut{.ranks = &ranks,
                              .places = {.length = length, .ranks = settings.ranks, .striped = true},
                              .route = route_of(settings.route)};
    const ops::HeadLayout& layout = settings.layout;
    const at::Tensor joint = at::randn({1, own, layout.columns()}, settings.type).set_requires_grad(true);
    const at::Tensor gradient = at::randn({1, own, layout.heads() * layout.head_dim}, settings.type);
    const ops::RotaryTable table = ops::rotary_table(length, layout.head_dim, 10'000.0, at::kCPU);
    attend(joint, gradient, settings, table, cut);  // warms up
    for (double& round : slowest) {
      group->barrier({}).wait();
      const Clock::time_point began = Clock::now();
      attend(joint, gradient, settings, table, cut);
      group->barrier({}).wait();
      if (world.rank() == 0) round = std::chrono::duration<double>(Clock::now() - began).count();
    }
  });
  return slowest;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  const auto number = [&](size_t at, int64_t missing) { return at < given.size() ? std::stoll(given[at]) : missing; };
  const int64_t heads = number(5, 16), key_heads = number(6, heads);
  const Settings settings{
      .route = given.empty() ? "ring" : given[0],
      .ranks = number(1, 2),
      .tokens = number(2, 4096),
      .rounds = number(3, 3),
      .type = given.size() > 4 && given[4] == "bf16" ? at::kBFloat16 : at::kFloat,
      .layout = {.groups = key_heads, .queries_per_group = heads / key_heads, .head_dim = number(7, 64)}};
  fmt::print("{{\"seconds\": [{}]}}\n", fmt::join(seconds_of(settings), ", "));
}
