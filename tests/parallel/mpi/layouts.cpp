// Checks for some layouts that ranks as processes under mpirun give the same bits as ranks as threads: every process
// also runs the training with threads and compares. With the argument "gpus" the processes use the NCCL backend, over
// the stand-in for GPUs that is linked into mpi_layouts_on_gpus. There, with tensor or pipeline parallelism, all
// operations of the first step wait for all work of the GPU, and in later steps those that the first one did not use.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "terrace/comm/mpi/mpi.h"
#include "tests/parallel/bits.h"
#include "tests/parallel/mpi/drains.h"

namespace {

using namespace terrace;
using namespace terrace::parallel;
using Tensors = std::map<std::string, at::Tensor>;

std::vector<Layout> layouts_of(int64_t ranks) {
  std::vector<Layout> layouts = {{ranks, {"sharding=ddp"}},
                                 {ranks, {"sharding=zero1"}},
                                 {ranks, {"sharding=zero2", "prefetch=0"}},
                                 {ranks, {"sharding=zero3"}},
                                 {ranks, {"sharding=zero3", "gather_type=int8", "reduce_type=int4"}},
                                 {ranks, {"sharding=zero1", "update_type=int8", "reduce_type=fp8"}}};
  for (const Layout& layout : feedback_layouts()) {
    if (layout.ranks == ranks) layouts.push_back(layout);
  }
  if (ranks % 2 == 0) {
    layouts.push_back({ranks, {"sharding=hybrid", "shard_group=2"}});
    layouts.push_back({ranks, {"sharding=three_level", "ranks_per_pair=1", "ranks_per_node=2"}});
  }
  // Nodes of one rank have no second hop, and nodes of all ranks neither.
  if (ranks % 2 == 0 && ranks > 2) {
    const std::vector<std::string> rails = {"ranks_per_node=2", "route=rails", "rails_gather=doubling"};
    layouts.push_back(Layout{ranks, {"sharding=zero3", "gather_type=int8"}}.with(rails));
    layouts.push_back(Layout{ranks, {"sharding=zero1"}}.with(rails));
  }
  return layouts;
}

// Layouts with tensor or pipeline parallelism.
std::vector<Layout> cuts_of(int64_t ranks) {
  const std::string sequence = "sequence_parallel=true";
  switch (ranks) {
    case 2:
      return {{2, {"tensor=2"}},
              {2, {"tensor=2", sequence}},
              {2, {"pipeline=2"}},
              {2, {"pipeline=2", "schedule=zb-v", "chunks=2"}}};
    case 3:
      return {{3, {"tensor=3"}},
              {3, {"pipeline=3", "schedule=interleaved", "chunks=2"}},
              {3, {"pipeline=3", "schedule=zb-h1"}}};
    case 4:
      return {{4, {"tensor=2", "pipeline=2", "schedule=zb-h1"}},
              {4, {"pipeline=2", "schedule=gpipe", "sharding=zero1"}},
              {4, {"tensor=2", sequence, "sharding=zero3"}}};
    default:
      return {};
  }
}

// Layouts whose ranks divide experts.
std::vector<Layout> expert_layouts_of(int64_t ranks) {
  const std::string tensor = "tensor=2", sequence = "sequence_parallel=true";
  switch (ranks) {
    case 2:
      return {{2, {"experts=2", "sharding=zero3"}}, {2, {"experts=2", tensor, sequence}}};
    case 3:
      return {{3, {"experts=3", "sharding=zero1"}}};
    case 4:
      return {{4, {"experts=4", tensor, sequence, "sharding=zero2"}},
              {4, {"experts=2", "pipeline=2", "schedule=zb-h1"}}};
    default:
      return {};
  }
}

// Sums tensors of which each rank has its own elements and zeros elsewhere.
void sum_over_ranks(Tensors& tensors, comm::Comm& all) {
  for (auto& [name, tensor] : tensors) {
    all.all_reduce(tensor.mutable_data_ptr(), tensor.numel(), comm::Type::fp32, {.what = "whole tensors"}).wait();
  }
}

// The first difference; "" if the results are equal bit for bit.
std::string difference(const Tensors& ours, const Tensors& threads) {
  for (const auto& [name, tensor] : threads) {
    if (!same_bits(ours.at(name), tensor)) return name;
  }
  return "";
}

Outcome train_as_process(const Training& training, const Layout& layout, comm::World& world, bool drains) {
  Outcome outcome;
  RankTraining rank(training, layout_config(layout, training.deterministic), world);
  for (int64_t step = 1; step <= training.steps; ++step) {
    if (drains) drain(step == 1 ? Drains::at_every_operation : Drains::at_first_uses);
    rank.step(step, outcome);
  }
  stop_drains();
  rank.finish(outcome);
  for (const auto tensors : {&Outcome::gradients, &Outcome::weights, &Outcome::m, &Outcome::v}) {
    sum_over_ranks(outcome.*tensors, *rank.groups().control);
  }
  return outcome;
}

int64_t compare(const Training& training, const Layout& layout, const std::shared_ptr<comm::MpiLibrary>& library,
                bool gpus, bool drains) {
  const auto world = comm::make_mpi_world(library, {.timeout_seconds = 60, .rank_order = true, .check_calls = true});
  if (gpus) world->use_gpu(static_cast<int>(world->rank()));
  const Outcome ours = train_as_process(training, layout, *world, drains);
  const Outcome threads = parallel::train(training, layout);
  int64_t failures = 0;
  const auto expect = [&](const char* what, const std::string& where) {
    if (where.empty()) return;
    ++failures;
    fmt::print(stderr, "rank {}, {} on {}: {} differ, {}\n", world->rank(), training.model, layout.name(), what, where);
  };
  expect("gradients", difference(ours.gradients, threads.gradients));
  expect("weights", difference(ours.weights, threads.weights));
  expect("first moments", difference(ours.m, threads.m));
  expect("second moments", difference(ours.v, threads.v));
  if (world->rank() == 0 && ours.losses != threads.losses) expect("losses", "step 1 or 2");
  if (world->rank() == 0 && ours.norms != threads.norms) expect("gradient norms", "step 1 or 2");
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const bool gpus = argc > 1 && std::string(argv[1]) == "gpus";
  at::set_num_threads(1);
  const auto library = comm::start_mpi();
  const int64_t ranks = comm::make_mpi_world(library, {})->size();
  int64_t failures = 0;
  for (const Training& training :
       {Training{.model = "gpt2"}, Training{.model = "llama", .precision = config::Precision::bf16, .micro_batch = 1},
        Training{.model = "tied_stack", .recompute = config::Recompute::full}}) {
    for (const Layout& layout : layouts_of(ranks)) failures += compare(training, layout, library, gpus, false);
  }
  for (const Layout& layout : cuts_of(ranks)) {
    failures += compare({.model = "cut_gpt2_deep", .micro_batch = 2}, layout, library, gpus, true);
  }
  for (const Layout& layout : expert_layouts_of(ranks)) {
    failures += compare({.model = "cut_experts_grouped", .micro_batch = 2}, layout, library, gpus, true);
  }
  return failures == 0 ? 0 : 1;
}
