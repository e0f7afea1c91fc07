// Tests keys without effect: they are refused if the file alone is the reason, and left out of the run with a sentence
// if a --set or the number of ranks is.
#include "terrace/config/idle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "terrace/config/key.h"
#include "tests/config/config_cases.h"

namespace terrace::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Keys = std::vector<std::string>;

struct IdleKey {
  std::string key, value;
  Keys beside;          // the keys that leave it without effect
  std::string problem;  // the end of "KEY = VALUE has no effect ..."
  Keys remedy;          // keys in place of `beside` with which it has an effect
};

const std::vector<IdleKey> cases = {
    {"layout.node_type",
     "\"bf16\"",
     {"layout.reduce_type=bf16"},
     "without a quantized type, which it would replace inside nodes; remove it, or use reduce_type = \"int4\"",
     {"layout.reduce_type=int4"}},
    {"model.rope_theta",
     "500000.0",
     {},
     "with positions = \"learned\"; remove it, or use \"rotary\"",
     {"model.positions=rotary"}},
    {"model.rope_scaling",
     "\"llama3\"",
     {},
     "with positions = \"learned\"; remove it, or use \"rotary\"",
     {"model.positions=rotary"}},
    {"model.rope_factor",
     "2.0",
     {"model.positions=rotary"},
     "without rope_scaling; remove it, or use rope_scaling = \"linear\", \"llama3\" or \"yarn\"",
     {"model.positions=rotary", "model.rope_scaling=linear"}},
    {"model.rope_low_frequency",
     "2.0",
     {},
     "with positions = \"learned\"; remove it, or use \"rotary\"",
     {"model.positions=rotary", "model.rope_scaling=llama3"}},
    {"model.rope_high_frequency",
     "2.0",
     {"model.positions=rotary", "model.rope_scaling=linear"},
     "with rope_scaling = \"linear\"; remove it, or use \"llama3\"",
     {"model.positions=rotary", "model.rope_scaling=llama3"}},
    {"model.rope_original_sequence",
     "64",
     {"model.positions=rotary"},
     "without rope_scaling; remove it, or use rope_scaling = \"linear\", \"llama3\" or \"yarn\"",
     {"model.positions=rotary", "model.rope_scaling=yarn"}},
    {"model.rope_beta_slow",
     "2.0",
     {"model.positions=rotary", "model.rope_scaling=llama3"},
     "with rope_scaling = \"llama3\"; remove it, or use \"yarn\"",
     {"model.positions=rotary", "model.rope_scaling=yarn"}},
    {"model.rope_beta_fast",
     "16.0",
     {"model.positions=rotary", "model.rope_scaling=linear"},
     "with rope_scaling = \"linear\"; remove it, or use \"yarn\"",
     {"model.positions=rotary", "model.rope_scaling=yarn"}},
    {"model.rope_truncate",
     "false",
     {"model.positions=rotary"},
     "without rope_scaling; remove it, or use rope_scaling = \"linear\", \"llama3\" or \"yarn\"",
     {"model.positions=rotary", "model.rope_scaling=yarn"}},
    {"model.rope_attention_factor",
     "1.5",
     {},
     "with positions = \"learned\"; remove it, or use \"rotary\"",
     {"model.positions=rotary", "model.rope_scaling=yarn"}},
    {"model.local_rope_theta",
     "5000.0",
     {"model.positions=rotary"},
     "without global_every, by which layers are local; remove it, or give both",
     {"model.positions=rotary", "model.global_every=2"}},
    {"model.global_every",
     "2",
     {},
     "without a window and without local_rope_theta, so that all layers are equal; remove it, or give one of them",
     {"model.window=8"}},
    {"model.query_scalar",
     "12.0",
     {},
     "with positions = \"learned\"; remove it, or use \"rotary\"",
     {"model.positions=rotary"}},
    {"model.qkv_bias",
     "true",
     {},
     "with bias = true, which gives every linear layer a bias; remove it, or use bias = false",
     {"model.bias=false"}},
    {"model.experts_per_token", "3", {}, "without model.experts; remove it, or give experts", {"model.experts=4"}},
    {"model.router", "\"sigmoid\"", {}, "without model.experts; remove it, or give experts", {"model.experts=4"}},
    {"model.router_normalise", "false", {}, "without model.experts; remove it, or give experts", {"model.experts=4"}},
    {"model.router_factor", "2.5", {}, "without model.experts; remove it, or give experts", {"model.experts=4"}},
    {"model.expert_groups", "2", {}, "without model.experts; remove it, or give experts", {"model.experts=4"}},
    {"model.expert_width", "24", {}, "without model.experts; remove it, or give experts", {"model.experts=4"}},
    {"model.shared_experts", "1", {}, "without model.experts; remove it, or give experts", {"model.experts=4"}},
    {"model.dense_layers", "1", {}, "without model.experts; remove it, or give experts", {"model.experts=4"}},
    {"model.balance_loss", "0.01", {}, "without model.experts; remove it, or give experts", {"model.experts=4"}},
    {"model.router_z_loss", "0.001", {}, "without model.experts; remove it, or give experts", {"model.experts=4"}},
    {"model.router_bias", "true", {}, "without model.experts; remove it, or give experts", {"model.experts=4"}},
    {"model.shared_gate",
     "true",
     {"model.experts=4"},
     "without model.shared_experts; remove it, or give shared_experts",
     {"model.experts=4", "model.shared_experts=1"}},
    {"model.expert_groups_kept",
     "1",
     {"model.experts=4"},
     "with one group of experts; remove it, or give expert_groups",
     {"model.experts=4", "model.expert_groups=2"}},
    {"model.router_bias_rate",
     "0.01",
     {"model.experts=4"},
     "without model.router_bias; remove it, or use router_bias = true",
     {"model.experts=4", "model.router_bias=true"}},
    {"model.window",
     "40",
     {},
     "with model.sequence = 32, which it holds whole; remove it, or use a smaller one",
     {"model.sequence=64"}},
    {"model.init_std",
     "0.1",
     {"train.initial_weights=runs/a"},
     "beside train.initial_weights, which gives every weight its first value; remove one of them",
     {}},
    {"data.weights",
     "[1.0]",
     {"data.train=[\"data/a\"]"},
     "with one corpus in data.train; remove it",
     {"data.weights=[1.0, 2.0]"}},
    {"data.validation_share",
     "0.2",
     {"data.validation=[\"data/c\"]"},
     "beside data.validation; remove one of them",
     {}},
    {"train.evaluate_batches",
     "3",
     {},
     "with evaluate_every = 0; use evaluate_batches = 0, or give evaluate_every, such as 10",
     {"train.evaluate_every=10"}},
    {"train.ramp_samples",
     "100",
     {},
     "without ramp_start; give it, such as 1, or remove the ramp-up",
     {"train.ramp_start=1", "train.ramp_increment=1", "train.micro_batch=1"}},
    {"train.ramp_increment",
     "4",
     {},
     "without ramp_start; give it, such as 4, or remove the ramp-up",
     {"train.ramp_start=4", "train.ramp_samples=9", "train.micro_batch=4"}},
    {"train.on_corruption",
     "\"reload\"",
     {},
     "without check_states_every and check_computation_every; give one of them, such as check_states_every = 100, or "
     "remove it",
     {"train.check_computation_every=50"}},
    {"train.spike_threshold",
     "8.0",
     {},
     "with on_spike = \"ignore\"; remove it, or use \"warn\", \"skip\" or \"back\"",
     {"train.on_spike=warn"}},
    {"train.spike_window",
     "30",
     {},
     "with on_spike = \"ignore\"; remove it, or use \"warn\", \"skip\" or \"back\"",
     {"train.on_spike=skip"}},
    {"train.initial_loss_scale",
     "1024.0",
     {},
     "with precision = \"fp32\"; remove it, or use \"fp16\"",
     {"train.precision=fp16"}},
    {"train.loss_scale_window",
     "5",
     {"train.precision=bf16"},
     "with precision = \"bf16\"; remove it, or use \"fp16\"",
     {"train.precision=fp16"}},
    {"optimizer.min_learning_rate",
     "1e-05",
     {"optimizer.schedule=constant"},
     "with schedule = \"constant\"; remove it",
     {"optimizer.schedule=linear"}},
    {"optimizer.decay_steps",
     "5",
     {"optimizer.schedule=constant"},
     "with schedule = \"constant\"; remove it, or use \"cosine\", \"linear\" or \"wsd\"",
     {"optimizer.schedule=linear"}},
    {"layout.order",
     "[\"data\", \"tensor\", \"pipeline\"]",
     {},
     "with pipeline = 1 and tensor = 1, where data is the only axis; remove it",
     {"layout.tensor=2"}},
    {"layout.schedule",
     "\"zb-h1\"",
     {},
     "with pipeline = 1; remove it, or give pipeline the number of stages",
     {"layout.pipeline=2"}},
    {"layout.schedule",
     "\"interleaved\"",
     {"layout.pipeline=2"},
     "with chunks = 1, which interleaves nothing; give chunks of at least 2, or remove it",
     {"layout.pipeline=2", "layout.chunks=2"}},
    {"layout.chunks",
     "2",
     {},
     "with pipeline = 1; remove it, or give pipeline the number of stages",
     {"layout.pipeline=2", "layout.schedule=zb-v"}},
    {"layout.stage_layers",
     "[1, 1]",
     {},
     "with pipeline = 1; remove it, or give pipeline the number of stages",
     {"layout.pipeline=2"}},
    {"layout.recompute_layers",
     "2",
     {},
     "with train.recompute = \"none\"; remove it, or use train.recompute = \"full\"",
     {"train.recompute=selective"}},
    {"layout.outer_type",
     "\"int8\"",
     {},
     "without layout.outer_every; remove it, or give layout.outer_every, such as 32",
     {"layout.outer_every=1"}},
    {"optimizer.outer_learning_rate",
     "0.5",
     {},
     "without layout.outer_every; remove it, or give layout.outer_every, such as 32",
     {"layout.outer_every=1"}},
    {"optimizer.outer_momentum",
     "0.5",
     {},
     "without layout.outer_every; remove it, or give layout.outer_every, such as 32",
     {"layout.outer_every=1"}},
    {"layout.sequence_parallel", "true", {}, "with tensor = 1; remove it", {"layout.tensor=2"}},
    {"layout.context_route", "\"gather\"", {}, "with context = 1; remove it", {"layout.context=2"}},
    {"layout.sharding",
     "\"hybrid\"",
     {"layout.shard_weights=2", "layout.shard_gradients=4", "layout.shard_optimizer=8"},
     "beside shard_weights, shard_gradients and shard_optimizer, which replace it together; remove it, or one of them",
     {"layout.shard_group=2", "layout.shard_optimizer=8"}},
    {"layout.shard_group",
     "2",
     {"layout.sharding=zero1"},
     "with sharding = \"zero1\"; remove it, or use \"hybrid\"",
     {"layout.sharding=hybrid"}},
    {"layout.shard_group",
     "2",
     {"layout.shard_weights=2", "layout.shard_gradients=4", "layout.shard_optimizer=8"},
     "beside shard_weights, shard_gradients and shard_optimizer, which replace it together; remove it, or one of them",
     {"layout.sharding=hybrid"}},
    {"layout.prefetch",
     "3",
     {},
     "with sharding = \"ddp\", which cuts no weights; remove it, or use sharding = "
     "\"zero3\"",
     {"layout.sharding=zero3"}},
    {"layout.gather_type",
     "\"bf16\"",
     {"layout.shard_weights=none", "layout.sharding=zero3"},
     "with shard_weights = \"none\", which cuts no weights; remove it, or use sharding = \"zero3\"",
     {"layout.shard_weights=2"}},
    {"layout.update_type",
     "\"bf16\"",
     {"layout.sharding=zero3"},
     "with sharding = \"zero3\", where no weights travel after the step, since optimizer states are cut as the "
     "weights are; remove it, or use sharding = \"zero1\"",
     {"layout.sharding=zero1"}},
    {"layout.ranks_per_pair",
     "4",
     {"layout.sharding=zero3"},
     "where nothing is cut over a pair; remove it, or use sharding = \"three_level\" or \"pair\" in a shard_ key",
     {"layout.sharding=three_level"}},
    {"layout.ranks_per_node",
     "4",
     {"layout.sharding=zero1"},
     "where nothing is cut over a node; remove it, or use sharding = \"node\" or \"node\" in a shard_ key, or route = "
     "\"rails\"",
     {"layout.shard_optimizer=node"}},
    {"layout.ranks_per_node",
     "2",
     {"layout.sharding=zero1"},
     "where nothing is cut over a node; remove it, or use sharding = \"node\" or \"node\" in a shard_ key, or route = "
     "\"rails\"",
     {"data.stage=/fast"}},
    {"layout.ranks_per_node",
     "2",
     {"layout.sharding=zero1"},
     "where nothing is cut over a node; remove it, or use sharding = \"node\" or \"node\" in a shard_ key, or route = "
     "\"rails\"",
     {"checkpoint.memory_every=10"}},
    {"data.stage_bytes", "1000000", {}, "without data.stage; name a folder there, or remove it", {"data.stage=/fast"}},
    {"data.shares", "2", {}, "without data.order = \"node\"; give that, or remove it", {"data.order=node"}},
    {"data.exchange_epochs",
     "3",
     {},
     "without data.order = \"node\"; give that, or remove it",
     {"data.order=node", "data.shares=2"}},
    {"layout.ranks_per_node",
     "2",
     {"layout.sharding=zero1", "layout.reduce_type=int4"},
     "where nothing is cut over a node; remove it, or use sharding = \"node\" or \"node\" in a shard_ key, or route = "
     "\"rails\"",
     {"layout.sharding=zero1", "layout.reduce_type=int4", "layout.node_type=same"}},
    {"layout.rails_gather",
     "\"doubling\"",
     {"layout.sharding=zero3", "layout.route=flat"},
     "with route = \"flat\", where nothing moves by rails; remove it, or use route = \"rails\"",
     {"layout.sharding=zero3", "layout.route=rails"}},
    {"layout.rails_gather",
     "\"doubling\"",
     {"layout.sharding=zero3"},
     "with route = \"auto\" and no observe.machine, where nothing moves by rails; remove it, or use route = \"rails\"",
     {"layout.sharding=zero3", "observe.machine=laptop"}},
    {"layout.rails_gather",
     "\"library\"",
     {"layout.sharding=ddp", "layout.route=rails"},
     "with sharding = \"ddp\", which gathers no weights; remove it, or use \"zero3\"",
     {"layout.sharding=zero1", "layout.route=rails"}},
    {"checkpoint.keep_every", "50", {}, "without checkpoint.every; use every = 50", {"checkpoint.every=50"}},
    {"checkpoint.keep_every",
     "50",
     {"checkpoint.every=10", "checkpoint.keep=0"},
     "with keep = 0, which keeps every checkpoint; remove it, or use keep = 3",
     {"checkpoint.every=10", "checkpoint.keep=3"}},
    {"checkpoint.background",
     "false",
     {},
     "without checkpoint.every: the checkpoint at the end is never written in the background; remove it",
     {"checkpoint.every=10"}},
    {"checkpoint.staging",
     "\"/fast\"",
     {},
     "without checkpoint.every: the checkpoint at the end is written into its folder at once; remove it, or give "
     "every, such as 100",
     {"checkpoint.every=100"}},
    {"checkpoint.staging",
     "\"/fast\"",
     {"checkpoint.every=10", "checkpoint.background=false"},
     "with background = false: staging copies checkpoints in the background; remove one of them",
     {"checkpoint.every=10"}},
    {"checkpoint.memory_folder",
     "\"/mem\"",
     {},
     "without checkpoint.memory_every, since nothing is copied there; remove it, or give memory_every, such as 10",
     {"checkpoint.memory_every=10"}},
};

Keys broken_by(const IdleKey& one) {
  Keys keys = one.beside;
  keys.push_back(one.key + "=" + one.value);
  return keys;
}

TEST(IdleKeys, RefusedInASingleFile) {
  for (const IdleKey& one : cases) {
    const std::string problem = complaint(file_with(broken_by(one)));
    EXPECT_THAT(problem, AllOf(HasSubstr("run.toml:"),
                               HasSubstr(one.key + " = " + one.value + " has no effect " + one.problem)));
    EXPECT_EQ(problem.find("problems in"), std::string::npos) << problem;
    Keys remedied = {one.key + "=" + one.value};
    remedied.insert(remedied.end(), one.remedy.begin(), one.remedy.end());
    EXPECT_EQ(complaint(file_with(remedied)), "") << one.key;
  }
}

// A rule without a case above would have a message that no test compares.
TEST(IdleKeys, EveryRuleHasACase) {
  const std::vector<Key> keys = keys_of(gpt());
  for (const IdleRule& rule : idle_rules_of(gpt())) {
    ASSERT_NE(find_key(keys, rule.key), nullptr) << rule.key;
    for (const std::string& cause : rule.causes) EXPECT_NE(find_key(keys, cause), nullptr) << cause;
    EXPECT_TRUE(rule.beside != nullptr || rule.on != nullptr) << rule.key;
    if (rule.beside == nullptr) continue;
    EXPECT_TRUE(std::ranges::count(cases, rule.key, &IdleKey::key) > 0) << rule.key;
  }
}

TEST(IdleKeys, AcceptedWithTheValueThatAsksForNothing) {
  for (const IdleRule& rule : idle_rules_of(gpt())) {
    if (rule.off.empty()) continue;
    EXPECT_EQ(complaint(file_with({rule.key + "=" + rule.off})), "") << rule.key;
  }
}

// A user who writes the default into the file expects an effect too.
TEST(IdleKeys, RefusedAtTheirDefaultsToo) {
  EXPECT_THAT(complaint(file_with({"model.rope_theta=10000.0"})), HasSubstr("has no effect with positions"));
  EXPECT_THAT(complaint(file_with({"layout.prefetch=1"})), HasSubstr("cuts no weights"));
}

TEST(IdleKeys, GiveASentenceAndTheirDefaultsWhereASetMakesThemIdle) {
  for (const IdleKey& one : cases) {
    SCOPED_TRACE(one.key);
    const Config usual = parsed(file_with(one.beside), "run.toml");
    const auto expect_as_usual = [&](const Config& config) {
      EXPECT_EQ(config, usual);
      ASSERT_EQ(config.idle.size(), 1u);
      EXPECT_THAT(config.idle.front(), HasSubstr(one.key + " = " + one.value + " has no effect " + one.problem));
      EXPECT_EQ(parsed(dump(config), "dump.toml"), config);
    };
    expect_as_usual(parsed(file_with(one.beside), "run.toml", {one.key + "=" + one.value}));
  }
  const Config one_stage = parsed(file_with({"layout.pipeline=2", "layout.chunks=2", "layout.schedule=zb-v"}),
                                  "run.toml", {"layout.pipeline=1"});
  EXPECT_EQ(one_stage, valid());
  EXPECT_THAT(one_stage.idle, ElementsAre(AllOf(HasSubstr("run.toml:"), HasSubstr("layout.schedule = \"zb-v\"")),
                                          HasSubstr("layout.chunks = 2")));
}

TEST(IdleKeys, ReadFromACheckpointAsIfLeftOut) {
  const Config config = parsed(file_with({"model.rope_theta=500000.0", "layout.prefetch=1"}), "config.toml", {},
                               terrace::config::IdleKeys::accept);
  EXPECT_EQ(config, valid());
  EXPECT_TRUE(config.idle.empty());
}

TEST(IdleKeys, GiveASentenceInAFileThatIsPlanned) {
  const Config config = parsed(file_with({"layout.prefetch=1", "layout.pipeline=2", "layout.schedule=interleaved"}),
                               "run.toml", {}, terrace::config::IdleKeys::warn);
  EXPECT_EQ(config, valid({"layout.pipeline=2"}));
  EXPECT_THAT(config.idle, ElementsAre(HasSubstr("layout.schedule = \"interleaved\" has no effect with chunks = 1"),
                                       HasSubstr("layout.prefetch = 1 has no effect")));
}

// A planner that varies the pipeline needs to know which schedule a --set asks for.
TEST(IdleKeys, KeepTheirValuesInASetWhereAPlannerVariesTheOthers) {
  const Config config =
      parsed(file_with({"layout.prefetch=1"}), "run.toml", {"layout.schedule=zb-h1"}, terrace::config::IdleKeys::keep);
  EXPECT_EQ(config.layout.schedule, terrace::config::PipelineSchedule::zb_h1);
  EXPECT_EQ(config.layout.prefetch, valid().layout.prefetch);
  EXPECT_TRUE(config.idle.empty());
}

// Every layout key that has no effect on few ranks, tested on so few ranks and on more.
TEST(IdleKeys, FollowFromTheNumbersOfRanks) {
  const auto idle = [](const Keys& keys, const RankFacts& ranks) {
    std::set<std::string> names;
    for (const std::string& sentence : idle_keys(valid(keys), ranks))
      names.insert(sentence.substr(0, sentence.find(' ')));
    return names;
  };
  const Keys cut = {"layout.sharding=zero3", "layout.gather_type=bf16",   "layout.reduce_type=bf16",
                    "layout.prefetch=3",     "layout.deterministic=true", "layout.check_calls=true",
                    "layout.timeout=30"};
  const RankFacts one, four{.all = 4, .data = 4, .weights = 4, .optimizer = 4};
  EXPECT_EQ(idle({}, one), (std::set<std::string>{}));
  EXPECT_EQ(idle(cut, one),
            (std::set<std::string>{"layout.sharding", "layout.gather_type", "layout.reduce_type", "layout.prefetch",
                                   "layout.deterministic", "layout.check_calls", "layout.timeout"}));
  EXPECT_EQ(idle(cut, four), (std::set<std::string>{}));
  // Two tensor ranks communicate, although nothing is cut over data-parallel ranks.
  EXPECT_EQ(idle(cut, {.all = 2}),
            (std::set<std::string>{"layout.sharding", "layout.gather_type", "layout.reduce_type", "layout.prefetch"}));
  const Keys groups = {"layout.shard_weights=pair", "layout.shard_gradients=node", "layout.shard_optimizer=all",
                       "layout.ranks_per_pair=4",   "layout.ranks_per_node=8",     "layout.update_type=bf16"};
  EXPECT_EQ(idle(groups, one),
            (std::set<std::string>{"layout.shard_weights", "layout.shard_gradients", "layout.shard_optimizer",
                                   "layout.ranks_per_pair", "layout.ranks_per_node", "layout.update_type"}));
  // A model that is cut over two nodes is copied from each to the other.
  EXPECT_EQ(idle({"layout.ranks_per_node=1", "checkpoint.memory_every=10"}, {.all = 2}), (std::set<std::string>{}));
  EXPECT_EQ(idle({"layout.ranks_per_node=1", "checkpoint.memory_every=10"}, one),
            (std::set<std::string>{"layout.ranks_per_node"}));
  EXPECT_EQ(idle(groups, {.all = 8, .data = 8, .weights = 4, .optimizer = 8}), (std::set<std::string>{}));
  EXPECT_EQ(idle(groups, {.all = 4, .data = 4, .weights = 4, .optimizer = 4}),
            (std::set<std::string>{"layout.update_type"}));
  const Keys typed = {"layout.reduce_type=int4", "layout.error_feedback=true", "layout.node_type=bf16"};
  EXPECT_EQ(idle(typed, {.all = 4, .data = 4, .typed_node = 2}), (std::set<std::string>{}));
  EXPECT_EQ(idle(typed, {.all = 4, .data = 4, .typed_node = 1}), (std::set<std::string>{"layout.node_type"}));
  EXPECT_EQ(idle(typed, {.all = 4, .data = 4, .typed_node = 4, .feeds_back = false}),
            (std::set<std::string>{"layout.error_feedback"}));
  EXPECT_EQ(idle(typed, one),
            (std::set<std::string>{"layout.reduce_type", "layout.error_feedback", "layout.node_type"}));
  // One micro-batch on one data-parallel rank leaves no smaller batch to measure.
  const Keys noise = {"train.noise_scale_every=10", "train.micro_batch=0"};
  EXPECT_EQ(idle(noise, one), (std::set<std::string>{"train.noise_scale_every"}));
  EXPECT_EQ(idle(noise, four), (std::set<std::string>{}));
  EXPECT_EQ(idle({"train.noise_scale_every=10", "train.micro_batch=1"}, one), (std::set<std::string>{}));
  EXPECT_THAT(idle_keys(valid(noise), one), ElementsAre(HasSubstr("use train.micro_batch = 6")));
  const Keys order = {"layout.tensor=2", "layout.order=[\"data\", \"tensor\", \"pipeline\"]"};
  EXPECT_EQ(idle(order, {.all = 2}), (std::set<std::string>{"layout.order"}));
  EXPECT_EQ(idle(order, {.all = 4, .data = 2}), (std::set<std::string>{}));
}

}  // namespace
}  // namespace terrace::config
