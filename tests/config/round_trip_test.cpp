// Tests that parse() reads back what dump() writes, which keys may change on resume, and that no input breaks the
// parser.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "terrace/config/key.h"
#include "tests/config/config_cases.h"

namespace terrace::config {
namespace {

constexpr const char* two_phases =
    "data.phases=[{from_step = 50, global_batch = 24}, "
    "{from_step = 60, train = [\"data/ä\"], weights = []}]";

// Keys with values other than their defaults, which are valid together.
const std::vector<std::string> everything = {"model.kv_heads=4",
                                             "model.head_dim=6",
                                             "model.ffn_width=100",
                                             "model.vocabulary_multiple=64",
                                             "model.window=7",
                                             "model.global_every=3",
                                             "model.local_rope_theta=2000",
                                             "model.post_norms=true",
                                             "model.query_scalar=12",
                                             "model.scaled_embeddings=true",
                                             "model.positions=rotary",
                                             "model.rope_theta=500000",
                                             "model.rope_scaling=llama3",
                                             "model.rope_factor=32",
                                             "model.rope_low_frequency=2",
                                             "model.rope_high_frequency=5",
                                             "model.rope_original_sequence=4096",
                                             "model.norm=rmsnorm",
                                             "model.norm_epsilon=1.0000000000000002e-6",
                                             "model.qk_norm=true",
                                             "model.activation=swiglu",
                                             "model.tied_head=false",
                                             "model.bias=false",
                                             "model.qkv_bias=true",
                                             "model.experts=12",
                                             "model.experts_per_token=3",
                                             "model.expert_width=24",
                                             "model.shared_experts=1",
                                             "model.shared_gate=true",
                                             "model.dense_layers=1",
                                             "model.router=sigmoid",
                                             "model.router_normalise=false",
                                             "model.router_factor=2.5",
                                             "model.expert_groups=4",
                                             "model.expert_groups_kept=2",
                                             "model.router_bias=true",
                                             "model.router_bias_rate=0.002",
                                             "model.balance_loss=0.0001",
                                             "model.router_z_loss=0.001",
                                             "model.dropout=0.1",
                                             "model.attention_dropout=0.3",
                                             "model.hf_layout=phi3",
                                             "data.weights=[0.3, 2]",
                                             "data.validation=[\"data/\\\"v\\\\w\\u0001\", \"data/ü\"]",
                                             "data.reset_at_documents=true",
                                             "data.tokenizer=t.model",
                                             two_phases,
                                             "train.micro_batch=2",
                                             "train.precision=fp16",
                                             "train.gradient_type=fp16",
                                             "train.recompute=full",
                                             "train.seed=9223372036854775807",
                                             "train.device=cpu",
                                             "train.threads=3",
                                             "train.evaluate_every=5",
                                             "train.evaluate_batches=2",
                                             "train.log_every=1",
                                             "train.noise_scale_every=5",
                                             "train.on_nan=skip",
                                             "train.check_states_every=4",
                                             "train.check_computation_every=6",
                                             "train.on_corruption=reload",
                                             "train.on_spike=back",
                                             "train.spike_threshold=7.5",
                                             "train.spike_window=20",
                                             "train.ramp_start=4",
                                             "train.ramp_increment=4",
                                             "train.ramp_samples=1000",
                                             "train.skip_steps=[[1, 1], [5, 9]]",
                                             "train.initial_loss_scale=1e3",
                                             "train.loss_scale_window=7",
                                             "train.initial_weights=runs/other/step_00000010",
                                             "train.time_limit=1h0.25s",
                                             "optimizer.schedule=wsd",
                                             "optimizer.warmup_steps=3",
                                             "optimizer.decay_steps=10",
                                             "optimizer.min_learning_rate=1e-5",
                                             "optimizer.weight_decay=0",
                                             "optimizer.beta1=0.8",
                                             "optimizer.beta2=0.99",
                                             "optimizer.epsilon=1e-6",
                                             "optimizer.clip=0",
                                             "layout.pipeline=2",
                                             "layout.schedule=interleaved",
                                             "layout.chunks=2",
                                             "layout.stage_layers=[0, 1, 1, 0]",
                                             "layout.recompute_layers=[1, 0]",
                                             "layout.tensor=4",
                                             "layout.sequence_parallel=true",
                                             "layout.shard_weights=2",
                                             "layout.order=[\"tensor\", \"data\", \"pipeline\"]",
                                             "layout.shard_gradients=pair",
                                             "layout.shard_optimizer=8",
                                             "layout.prefetch=2",
                                             "layout.gather_type=int8",
                                             "layout.reduce_type=fp32",
                                             "layout.update_type=fp8",
                                             "layout.route=rails",
                                             "layout.rails_gather=doubling",
                                             "layout.deterministic=true",
                                             "layout.ranks_per_pair=4",
                                             "layout.ranks_per_node=8",
                                             "layout.timeout=30",
                                             "layout.check_calls=true",
                                             "layout.share_gpus=true",
                                             "train.check_memory=false",
                                             "data.begin_token=<s>",
                                             "data.generation=generation_config.json",
                                             "data.stage=/fast/$USER",
                                             "data.stage_bytes=1000000",
                                             "checkpoint.every=10",
                                             "checkpoint.keep=5",
                                             "checkpoint.keep_every=20",
                                             "checkpoint.staging=/fast/disk",
                                             "checkpoint.memory_every=5",
                                             "checkpoint.memory_folder=/mem",
                                             "observe.tensorboard=true",
                                             "observe.csv=true",
                                             "observe.machine=laptop"};

// The keys that another key of `everything` would leave without effect.
const std::vector<std::string> the_rest = {
    "model.init_std=0.01",
    "model.positions=rotary",
    "model.rope_scaling=yarn",
    "model.rope_beta_slow=2",
    "model.rope_beta_fast=16",
    "model.rope_truncate=false",
    "model.rope_attention_factor=1.5",
    "data.validation_share=0.2",
    "layout.sharding=hybrid",
    "layout.shard_group=4",
    "checkpoint.every=10",
    "checkpoint.background=false",
    "layout.reduce_type=int4",
    "layout.error_feedback=true",
    "layout.node_type=bf16",
    "data.order=node",
    "data.shares=1",
    "data.exchange_epochs=3",
    "layout.outer_every=1",
    "layout.outer_type=int4",
    "optimizer.outer_learning_rate=0.5",
    "optimizer.outer_momentum=0.8",
};

const std::vector<std::string> long_samples = {"layout.context=2", "layout.context_route=gather", "model.experts=4",
                                               "layout.experts=2"};

TEST(Dump, ReadsBackAsAnEqualConfiguration) {
  for (const auto& overrides : {std::vector<std::string>{}, everything, the_rest, long_samples}) {
    const Config config = valid(overrides);
    EXPECT_EQ(config.idle, std::vector<std::string>{});
    const std::string text = dump(config);
    EXPECT_EQ(parsed(text, "dump.toml"), config);
    EXPECT_EQ(dump(parsed(text, "dump.toml")), text);
  }
}

// Guards the test above, which would not test a key that its lists omit.
TEST(Dump, TestCoversEveryKeyAwayFromItsDefault) {
  const Config most = valid(everything), rest = valid(the_rest), cut = valid(long_samples),
               defaults = config_of(*gpt());
  for (const Key& key : keys_of(gpt())) {
    const std::string value = key.write(defaults);
    // A GPT has no sizes for a budget; tests/families/ reads one back.
    const bool cannot = key.full_name() == "model.family" || key.full_name() == "train.micro_batch_sizes";
    EXPECT_EQ(key.write(most) == value && key.write(rest) == value && key.write(cut) == value, cannot)
        << key.full_name();
  }
}

// A configuration so keeps its dump when the program gains a feature.
TEST(Dump, LeavesOutFeaturesThatTheModelLacks) {
  const std::vector<std::string> llama = {"model.positions=rotary", "model.norm=rmsnorm", "model.activation=swiglu",
                                          "model.bias=false"};
  EXPECT_EQ(dump(valid(llama)).find("rope_scaling"), std::string::npos);
  EXPECT_EQ(dump(valid(llama)).find("qkv_bias"), std::string::npos);
  EXPECT_EQ(dump(valid(llama)).find("qk_norm"), std::string::npos);
  EXPECT_EQ(dump(valid(llama)).find("window"), std::string::npos);
  std::vector<std::string> scaled = llama;
  scaled.push_back("model.rope_scaling=linear");
  const std::string text = dump(valid(scaled));
  EXPECT_NE(text.find("\nrope_scaling = \"linear\"\nrope_factor = 8.0\nnorm"), std::string::npos);
}

TEST(Dump, ShowsWhatWasDerived) {
  const std::string yarn = dump(valid({"model.positions=rotary", "model.rope_scaling=yarn", "model.rope_factor=1"}));
  EXPECT_NE(yarn.find("\nrope_attention_factor = 1.0\n"), std::string::npos);
  const std::string text = dump(valid());
  EXPECT_NE(text.find("[model]\nfamily = \"gpt\"\nlayers = 2\n"), std::string::npos);
  EXPECT_NE(text.find("\nkv_heads = 8\nhead_dim = 8\nffn_width = 256\n"), std::string::npos);
  EXPECT_NE(text.find("\nmicro_batch = 0\n"), std::string::npos);
  EXPECT_NE(text.find("\nlearning_rate = 0.0003\n"), std::string::npos);
}

std::string resume_complaint(const Config& saved, const Config& now) {
  try {
    check_resume(saved, now, 7);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(CheckResume, AcceptsTheSameConfiguration) {
  EXPECT_EQ(resume_complaint(valid(everything), valid(everything)), "");
}

TEST(CheckResume, NamesEveryChangedKeyWithBothValues) {
  EXPECT_EQ(resume_complaint(valid(),
                             valid({"model.layers=3", "train.seed=2", "train.steps=200", "data.weights=[1.0, 2.0]"})),
            "these keys must not change when a run is resumed:\n"
            "  model.layers = 2 in the checkpoint, but 3 now\n"
            "  data.weights = [] in the checkpoint, but [1.0, 2.0] now\n"
            "  train.seed = 1 in the checkpoint, but 2 now\n"
            "Set them back; to train on other data or with another global_batch from here on, add [[data.phases]] with "
            "a from_step of 8 or more; or start a new run in another checkpoint.folder with train.initial_weights, "
            "which takes the weights only.");
}

// A change of one key is refused if and only if the key's descriptor says so.
TEST(CheckResume, FollowsTheRuleOfEveryKey) {
  const Config saved = valid(everything);
  const Config other = valid();
  int refused = 0, accepted = 0;
  for (const Key& key : keys_of(gpt())) {
    if (key.write(saved) == key.write(other)) continue;
    Config now = saved;
    const toml::table table = toml::parse("value = " + key.write(other));
    ASSERT_EQ(key.read(*table.get("value"), now), "") << key.full_name();
    const std::string problem = resume_complaint(saved, now);
    EXPECT_EQ(problem.empty(), key.on_resume == OnResume::may_change) << key.full_name();
    const bool named = problem.find(key.full_name()) != std::string::npos;
    EXPECT_EQ(named, !problem.empty());
    (problem.empty() ? accepted : refused) += 1;
  }
  EXPECT_GE(refused, 20);
  EXPECT_GE(accepted, 20);
}

TEST(CheckResume, KeepsWhatTheNumbersOfTheRunDependOn) {
  for (const char* name : {"model.width", "train.global_batch", "train.precision", "train.seed", "train.ramp_start",
                           "data.weights", "data.validation_share", "data.reset_at_documents"}) {
    EXPECT_EQ(find_key(keys_of(gpt()), name)->on_resume, OnResume::fixed) << name;
  }
  for (const char* name : {"train.steps", "train.evaluate_every", "train.log_every", "train.skip_steps",
                           "optimizer.learning_rate", "checkpoint.every", "checkpoint.folder", "train.recompute"}) {
    EXPECT_EQ(find_key(keys_of(gpt()), name)->on_resume, OnResume::may_change) << name;
  }
}

TEST(CheckResume, LetsCorporaMoveToAnotherFolderButNotChangeTheirNames) {
  EXPECT_EQ(resume_complaint(valid(), valid({"data.train=[\"/fast/disk/a\", \"b\"]"})), "");
  EXPECT_NE(resume_complaint(valid(), valid({"data.train=[\"data/b\", \"data/a\"]"})), "");
  EXPECT_NE(resume_complaint(valid(), valid({"data.train=[\"data/a\"]"})), "");
}

TEST(CheckResume, LetsInitialWeightsMoveToAnotherFolderButNotChangeTheirName) {
  const Config saved = valid({"train.initial_weights=runs/first"});
  for (const char* path : {"first", "/elsewhere/first", "runs/first/", "runs/./first/."}) {
    EXPECT_EQ(resume_complaint(saved, valid({fmt::format("train.initial_weights={}", path)})), "") << path;
  }
  EXPECT_NE(resume_complaint(saved, valid({"train.initial_weights=runs/second/"})), "");
  EXPECT_NE(resume_complaint(saved, valid()), "");
}

// A randomly damaged file is either refused as the user's mistake, or read; then dump() and parse() give an equal
// configuration.
TEST(Fuzz, DamagedFilesAreRefusedOrRead) {
  const std::string whole = dump(valid(everything));
  const std::vector<std::string> pieces = {"[",
                                           "]",
                                           "{",
                                           "}",
                                           "=",
                                           "\"",
                                           "\n",
                                           ".",
                                           "-",
                                           "1e400",
                                           "9223372036854775807",
                                           "nan",
                                           "'",
                                           "#",
                                           "\xff",
                                           std::string(1, '\0'),
                                           "0x7f",
                                           "[[",
                                           "true",
                                           "\\u0000",
                                           "inf",
                                           "1979-05-27"};
  std::mt19937_64 random(7);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  int read = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = whole;
    for (size_t damages = 1 + below(3); damages > 0; --damages) {
      const size_t place = below(text.size());
      switch (below(4)) {
        case 0:
          text.erase(place, 1 + below(12));
          break;
        case 1:
          text.insert(place, pieces[below(pieces.size())]);
          break;
        case 2:
          text[place] = static_cast<char>(random());
          break;
        default:
          text.insert(place, text.substr(below(text.size()), below(40)));
      }
    }
    try {
      const Config config = parsed(text, "fuzz.toml");
      ASSERT_EQ(parsed(dump(config), "again.toml"), config);
      ++read;
    } catch (const UserError& error) {
      ASSERT_FALSE(std::string(error.what()).empty());
      ++refused;
    }
  }
  EXPECT_GT(read, 30);
  EXPECT_GT(refused, 100);
}

TEST(Fuzz, DeepNestingIsRefused) {
  EXPECT_NE(complaint("a = " + std::string(100'000, '[')), "");
  EXPECT_NE(complaint_of({"data.train=" + std::string(100'000, '[')}), "");
}

}  // namespace
}  // namespace terrace::config
