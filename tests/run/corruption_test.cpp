// Flips bits on purpose in runs of all families: checks of states name the rank and the tensor, the run stops or loads
// its newest checkpoint again, and checks that find nothing change no bit.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/run/run_training.h"
#include "tests/data/fields_files.h"
#include "tests/families/chains_of_atoms.h"
#include "tests/families/runs.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using train::MemoryFault;
using Place = MemoryFault::Place;
using Keys = std::vector<std::string>;

struct Disturbed {
  int64_t ranks;
  Keys keys;
  MemoryFault fault;
  Keys found = {};  // texts of the error
};

// Two steps before the fault, so that moments are not zero.
MemoryFault fault(Place place, int64_t rank, const std::string& parameter, int64_t element = 1, int bit = 20) {
  return {.place = place, .rank = rank, .step = 3, .parameter = parameter, .element = element, .bit = bit};
}

// Runs, of which the first start has the fault.
RunOptions disturbed(int64_t ranks, const MemoryFault& fault) {
  const auto starts = std::make_shared<std::atomic<int64_t>>(0);
  return {.ranks = ranks, .prepare = [=](train::Trainer& trainer) {
            if ((*starts)++ < ranks) trainer.disturb({fault});
          }};
}

std::string error_of(const config::Config& config, const RunOptions& options) {
  try {
    run_training(config, options);
    return "";
  } catch (const comm::CommError& error) {
    return error.what();
  }
}

class Corruption : public train::TinyRun {
 protected:
  config::Config config_of(const Keys& keys) const {
    Keys all = {"train.threads=1",
                "train.steps=5",
                "train.global_batch=12",
                "train.micro_batch=1",
                "train.check_states_every=1",
                fmt::format("checkpoint.folder={}/run{}", folder_.string(), runs_++)};
    all.insert(all.end(), keys.begin(), keys.end());
    return tiny_config(all);
  }

  void expect_found(const Disturbed& run) const {
    SCOPED_TRACE(fmt::format("{} ranks, {}", run.ranks, fmt::join(run.keys, ", ")));
    const std::string error = error_of(config_of(run.keys), disturbed(run.ranks, run.fault));
    for (const std::string& text : run.found) EXPECT_THAT(error, HasSubstr(text));
  }

  mutable int64_t runs_ = 0;
};

const std::string matrix = "blocks.1.ffn.first.weight", norm = "blocks.0.attention_norm.weight";

TEST_F(Corruption, ABitThatChangesWhileNothingWritesIsNamedByTheRankItself) {
  expect_found({1,
                {},
                fault(Place::weight, 0, matrix),
                {"silent corruption in step 3: rank 0 (host ", "the weights of " + matrix + " changed in its memory"}});
  expect_found({2, {}, fault(Place::weight, 1, matrix), {"rank 1 (host ", "the weights of " + matrix}});
  expect_found({2, {}, fault(Place::first_moment, 0, matrix), {"rank 0 (host ", "the first moments of " + matrix}});
  expect_found({2,
                {"layout.sharding=zero3"},
                fault(Place::second_moment, 1, "blocks.1.ffn.second.weight"),
                {"rank 1 (host ", "the second moments of blocks.1.ffn.second.weight"}});
}

// The bit changes in a step before which no digests were taken, so only the other ranks know.
TEST_F(Corruption, AReplicaThatDiffersIsNamedByTheOthers) {
  const Keys late = {"train.check_states_every=4"};
  const auto with = [&](const Keys& keys) {
    Keys all = late;
    all.insert(all.end(), keys.begin(), keys.end());
    return all;
  };
  expect_found({3,
                late,
                fault(Place::weight, 1, matrix),
                {"silent corruption in step 4: rank 1 (host ", "differ from those of ranks 0 and 2, which agree"}});
  expect_found({3, late, fault(Place::second_moment, 2, norm), {"rank 2 (host ", "the second moments of " + norm}});
  expect_found({4,
                with({"layout.sharding=hybrid", "layout.shard_group=2"}),
                fault(Place::first_moment, 3, matrix, 0),
                {"rank 3 (host ", "the first moments of " + matrix, "and there is no third copy"}});
  // The norms are whole on every tensor rank.
  expect_found({3,
                with({"layout.tensor=3", "model.vocabulary_multiple=24"}),
                fault(Place::second_moment, 1, norm),
                {"rank 1 (host ", "tensor 1)", "ranks 0 and 2"}});
}

// Nothing else compares before the end.
TEST_F(Corruption, ACopyInMemoryIsComparedBeforeItIsMade) {
  expect_found({3,
                {"train.check_states_every=100", "checkpoint.memory_every=4",
                 fmt::format("checkpoint.memory_folder={}/memory", folder_.string())},
                fault(Place::weight, 1, matrix),
                {"silent corruption in step 4: rank 1 (host ", "differ from those of ranks 0 and 2, which agree"}});
}

TEST_F(Corruption, OfTwoReplicasEachSaysWhetherItsWeightsAreItsMastersRounded) {
  std::string found;
  comm::run_threads(2, {}, [&](comm::World& world) {
    train::Trainer trainer(config_of({"train.precision=bf16"}), {}, {}, &world);
    take_steps(trainer, 1);
    train::StateCheck check(world, trainer.model(), trainer.cut(), trainer.optimizer());
    EXPECT_EQ(check.after_update(), "");
    if (world.rank() == 1) train::flip_bit(trainer.optimizer().states().front().shard.value, 0, 2);
    const std::string text = check.after_update();
    if (world.rank() == 0) found = text;
  });
  EXPECT_THAT(found, HasSubstr("rank 0 (host "));
  EXPECT_THAT(found, HasSubstr("no third copy; here they are the rank's own master weights, rounded; rank 1 (host "));
  EXPECT_THAT(found, HasSubstr("no third copy; here they are not the rank's own master weights, rounded"));
}

TEST_F(Corruption, SummedGradientsAndGatheredWeightsAreComparedWhereRanksHoldTheSame) {
  expect_found({3,
                {},
                fault(Place::summed_gradient, 2, norm),
                {"step 3: rank 2 (host ", "the summed gradients of " + norm, "ranks 0 and 1, which agree"}});
  expect_found({2, {}, fault(Place::summed_gradient, 0, norm), {"rank 0 (", "rank 1 (", "there is no third copy"}});
}

TEST_F(Corruption, StopsWithTheCheckpointToContinueFromOrLoadsItAgain) {
  const Keys saving = {"checkpoint.every=2", "checkpoint.background=false"};
  expect_found({2, saving, fault(Place::weight, 0, matrix), {"Continue from ", "step_00000002 with --resume auto"}});
  Keys reloading = saving;
  reloading.emplace_back("train.on_corruption=reload");
  const config::Config whole = config_of(reloading), broken = config_of(reloading);
  run_training(whole, {.ranks = 2});
  const RunResult result = run_training(broken, disturbed(2, fault(Place::weight, 0, matrix)));
  EXPECT_EQ(result.step, 5);
  for (const char* file : {"metrics.jsonl"})
    EXPECT_TRUE(std::filesystem::exists(broken.checkpoint.folder + "/" + file));
  const auto metrics = observe::read_metrics(broken.checkpoint.folder).steps;
  const auto expected = observe::read_metrics(whole.checkpoint.folder).steps;
  ASSERT_EQ(metrics.size(), expected.size());
  for (const auto& [step, line] : expected) EXPECT_EQ(metrics.at(step).loss, line.loss) << step;
  // Without a checkpoint it starts over.
  EXPECT_EQ(run_training(config_of({"train.on_corruption=reload"}), disturbed(2, fault(Place::weight, 0, matrix))).step,
            5);
}

// In a step that is checked, a rank first computes another one's micro-batch and then its own.
TEST_F(Corruption, ARankThatComputesWrongIsOutvoted) {
  const auto with = [](MemoryFault fault, int64_t first_time, int64_t times) {
    fault.first_time = first_time;
    fault.times = times;
    return fault;
  };
  const auto keys = [](Keys more = {}) {
    more.insert(more.end(), {"train.check_states_every=0", "train.check_computation_every=3"});
    return more;
  };
  const MemoryFault activation{.place = Place::activation, .rank = 1, .step = 3, .segment = 1, .element = 5, .bit = 12};
  const MemoryFault gradient = fault(Place::gradient, 0, matrix, 7, 20);
  // Once, in its own micro-batch or in the other one's: the repetition is right.
  expect_found({2,
                keys(),
                with(activation, 2, 1),
                {"silent corruption in step 3: rank 1 (host ",
                 "computes the forward of segment 1 for the first micro-batch "
                 "of data-parallel rank 1",
                 "once, and otherwise like them"}});
  expect_found({2, keys(), with(activation, 1, 1), {"rank 1 (host ", "of data-parallel rank 0", "once"}});
  expect_found({3,
                keys({"layout.sharding=zero3"}),
                with(gradient, 2, 1),
                {"rank 0 (host ", "computes the weight gradients of segment 2"}});
  // Always: a third rank decides.
  expect_found(
      {3, keys(), with(activation, 1, 100), {"rank 1 (host ", "computes the forward of segment 1", "each time"}});
  expect_found({2, keys(), with(activation, 1, 100), {"rank 0 (", "rank 1 (", "and there is no third one"}});
  // A rank alone repeats its own.
  MemoryFault alone = with(gradient, 2, 1);
  expect_found({1, keys(), alone, {"rank 0 (host ", "computes the weight gradients of segment 2"}});
  // The first stage is to blame, not the second, which computes with its numbers.
  MemoryFault of_stage = with(activation, 2, 1);
  of_stage.rank = 0;
  expect_found({4,
                keys({"layout.pipeline=2"}),
                of_stage,
                {"step 3: rank 0 (host ", "data 0, pipeline 0", "computes the forward of segment 1"}});
  const std::string error = error_of(config_of(keys({"layout.pipeline=2"})), disturbed(4, of_stage));
  EXPECT_THAT(error, Not(HasSubstr("rank 2 (")));
}

TEST_F(Corruption, AMachineThatCorruptsAgainAndAgainStopsTheRun) {
  const std::string error = error_of(
      config_of({"train.on_corruption=reload"}),
      {.ranks = 2, .prepare = [](train::Trainer& trainer) { trainer.disturb({fault(Place::weight, 0, matrix)}); }});
  EXPECT_THAT(error, HasSubstr("went back to step 0 3 times in a row already and stops"));
}

}  // namespace
}  // namespace terrace::run

namespace terrace {
namespace {

// Runs of the other families and layouts.
class CorruptionOfFamily : public RunsOfFamily {
 protected:
  // The layouts of each family, which are compared with the same layouts without checks.
  void expect_no_finding_and_same_bits(const std::vector<parallel::Layout>& layouts, const Keys& more = {}) {
    for (const parallel::Layout& layout : layouts) {
      SCOPED_TRACE(layout.name());
      Keys checked = keys_of(layout, more);
      const Result plain = run(layout.ranks, checked);
      checked.insert(checked.end(), {"train.check_states_every=1", "train.check_computation_every=2"});
      expect_same(run(layout.ranks, checked), plain);
    }
  }
};

class GptCorruption : public CorruptionOfFamily {
 protected:
  GptCorruption() {
    data::CorpusWriter writer((folder_ / "corpus").string(), 61, {.overwrite = true});
    for (uint32_t document = 0; document < 40; ++document) {
      std::vector<int32_t> tokens;
      for (uint32_t i = 0; i < 20; ++i) tokens.push_back(static_cast<int32_t>(philox_at({1, 2}, document, i)[0] % 60));
      tokens.push_back(60);
      writer.append(tokens);
      writer.end_document();
    }
    writer.commit();
  }
  config::Config config(const Keys& overrides) const override {
    return config::parse(
        fmt::format("[model]\nfamily = \"gpt\"\nlayers = 3\nwidth = 24\nheads = 12\nsequence = 16\nvocabulary = 61\n"
                    "vocabulary_multiple = 24\n[data]\ntrain = [\"{0}/corpus\"]\n"
                    "[train]\nglobal_batch = 24\nmicro_batch = 1\nsteps = 3\nthreads = 1\ndevice = \"cpu\"\n"
                    "[optimizer]\nlearning_rate = 1e-2\n[checkpoint]\nfolder = \"{0}/run\"\n",
                    folder_.string()),
        "gpt.toml", models::families(), overrides);
  }
};

TEST_F(GptCorruption, NoFindingAndTheSameBitsAtEveryLayout) {
  std::vector<parallel::Layout> layouts = {
      {1, {}},
      {3, {"sharding=ddp"}},
      {4, {"sharding=zero1"}},
      {4, {"sharding=zero2"}},
      {4, {"sharding=zero3"}},
      {4, {"sharding=hybrid", "shard_group=2"}},
      {8, {"sharding=three_level", "ranks_per_node=4", "route=rails"}},
      {8, {"shard_weights=2", "shard_gradients=2", "shard_optimizer=4"}},
      {4, {"sharding=zero3", "gather_type=int8", "reduce_type=int4", "error_feedback=true", "update_type=bf16"}},
      {4, {"tensor=2", "sequence_parallel=true", "sharding=zero3"}},
      {2, {"pipeline=2"}},
      {4, {"pipeline=2", "schedule=zb-h1", "sharding=zero2"}},
      {8, {"pipeline=2", "tensor=2", "schedule=interleaved", "chunks=2"}}};
  expect_no_finding_and_same_bits(layouts);
  expect_no_finding_and_same_bits({{4, {"sharding=hybrid", "shard_group=2"}}, {4, {"tensor=2"}}},
                                  {"train.precision=bf16", "model.dropout=0.1"});
  expect_no_finding_and_same_bits({{6, {"tensor=6"}}},
                                  {"model.kv_heads=3", "model.qk_norm=true", "model.positions=rotary"});
}

// Waves on 6 x 8 places.
class VitCorruption : public CorruptionOfFamily {
 protected:
  VitCorruption() {
    data::TestFile file;
    file.times.clear();
    for (int i = 0; i < 60; ++i) file.times.push_back(6 * i);
    file.latitudes = {-75, -45, -15, 15, 45, 75};
    file.longitudes = {0, 45, 90, 135, 180, 225, 270, 315};
    const auto wave = [](double time, double, double latitude, double longitude) {
      return std::cos((longitude - 7.5 * time) * 0.0174533) + latitude / 50;
    };
    file.variables = {{.name = "t", .value = wave}};
    data::prepare_fields({file.write((folder_ / "in.nc").string())}, (folder_ / "waves").string(),
                         {{"train", {"2000-01-01", "2000-01-14"}}, {"validation", {"2000-01-15", "2000-01-15"}}});
  }
  config::Config config(const Keys& overrides) const override {
    return config::parse(
        fmt::format("[model]\nfamily = \"vit\"\nvariables = [\"t\"]\ngrid = [6, 8]\npatch = 2\nlayers = 2\n"
                    "width = 16\nheads = 4\ndropout = 0.1\n[data]\nfields = \"{0}/waves\"\nleads = [\"6h\"]\n"
                    "[train]\nglobal_batch = 12\nmicro_batch = 1\nsteps = 3\nthreads = 1\ndevice = \"cpu\"\n"
                    "[optimizer]\nlearning_rate = 1e-2\n[checkpoint]\nfolder = \"{0}/run\"\n",
                    folder_.string()),
        "vit.toml", models::families(), overrides);
  }
};

TEST_F(VitCorruption, NoFindingAndTheSameBits) {
  expect_no_finding_and_same_bits(
      {{3, {}}, {4, {"sharding=zero3"}}, {4, {"tensor=2", "sharding=zero1"}}, {4, {"pipeline=2", "schedule=zb-h1"}}});
}

// Batch norm sums over the samples of all ranks, and its buffers are the same on all.
class GnnCorruption : public CorruptionOfFamily {
 protected:
  GnnCorruption() { prepare_chains_of_atoms((folder_ / "molecules").string(), 30); }
  config::Config config(const Keys& overrides) const override {
    return config::parse(
        fmt::format("[model]\nfamily = \"gnn\"\nconv = \"painn\"\nlayers = 2\nwidth = 8\nradius = 3.0\n"
                    "[[model.outputs]]\nname = \"energy\"\nper_atom = true\n"
                    "[[model.outputs]]\nname = \"forces\"\nderivative_of = \"energy\"\nweight = 10.0\n"
                    "[data]\ntrain = [\"{0}/molecules\"]\n"
                    "[train]\nglobal_batch = 12\nmicro_batch = 2\nsteps = 3\nthreads = 1\ndevice = \"cpu\"\n"
                    "[optimizer]\nlearning_rate = 1e-2\n[checkpoint]\nfolder = \"{0}/run\"\n",
                    folder_.string()),
        "gnn.toml", models::families(), overrides);
  }
};

TEST_F(GnnCorruption, NoFindingAndTheSameBits) {
  const std::vector<parallel::Layout> layouts = {{3, {}}, {4, {"sharding=zero3"}}, {4, {"sharding=zero1"}}};
  expect_no_finding_and_same_bits(layouts);
}

}  // namespace
}  // namespace terrace
