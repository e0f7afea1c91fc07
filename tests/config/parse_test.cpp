// Tests reading: values, derived zeros, types, places, unknown names, overrides, refused features.
#include <gtest/gtest.h>

#include "terrace/config/load_for_plan.h"
#include "terrace/config/other_names.h"
#include "tests/config/config_cases.h"

namespace terrace::config {
namespace {

// The valid file with one more line after a table's heading.
std::string with_line(const std::string& table, const std::string& line) {
  std::string toml = valid_toml;
  return toml.insert(toml.find("[" + table + "]\n") + table.size() + 3, line + "\n");
}

TEST(Parse, ReadsValuesAndKeepsDefaults) {
  const Config config = valid();
  EXPECT_EQ(models::gpt::model_of(config).layers, 2);
  EXPECT_EQ(data::text_of(config).train, (std::vector<std::string>{"data/a", "data/b"}));
  EXPECT_EQ(config.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(config.checkpoint.folder, "runs/small");
  EXPECT_EQ(models::gpt::model_of(config).norm_epsilon, models::gpt::ModelConfig{}.norm_epsilon);
  EXPECT_EQ(config.train.precision, Precision::fp32);
}

TEST(Parse, NeedsOnlyTheTablesOfAPlannerToPlan) {
  const std::string model = valid_toml.substr(0, valid_toml.find("[data]"));
  const std::string toml = model + "[train]\nglobal_batch = 2\nsteps = 3\n";
  const Config config = parse_for_plan(toml, "a launch", models::planned_families(), {"train.steps=4"});
  EXPECT_EQ(config.train.steps, 4);
  EXPECT_EQ(models::gpt::model_of(config), models::gpt::model_of(valid()));
  try {
    parse_for_plan(model, "a launch", models::planned_families());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("a launch: train.global_batch is missing"), std::string::npos);
  }
}

TEST(Parse, DerivesZeros) {
  const Config config = valid();
  EXPECT_EQ(models::gpt::model_of(config).kv_heads, 8);
  EXPECT_EQ(models::gpt::model_of(config).head_dim, 8);
  EXPECT_EQ(models::gpt::model_of(config).ffn_width, 256);
  EXPECT_EQ(config.train.micro_batch, 0);  // depends on the number of ranks, which the file does not contain
  const Config given = valid({"model.kv_heads=2", "model.head_dim=10", "model.ffn_width=7", "train.micro_batch=3"});
  EXPECT_EQ(models::gpt::model_of(given).kv_heads, 2);
  EXPECT_EQ(models::gpt::model_of(given).head_dim, 10);
  EXPECT_EQ(models::gpt::model_of(given).ffn_width, 7);
  EXPECT_EQ(given.train.micro_batch, 3);
}

TEST(Parse, ReadsEveryKindOfValue) {
  const Config config = valid({"model.bias=false", "model.norm=rmsnorm", "optimizer.clip=2", "data.weights=[1, 2.5]",
                               "train.skip_steps=[[10, 12], [20, 20]]", "train.precision=fp16", "train.device=cpu",
                               "train.seed=9223372036854775807"});
  EXPECT_FALSE(models::gpt::model_of(config).bias);
  EXPECT_EQ(models::gpt::model_of(config).norm, models::gpt::Norm::rmsnorm);
  EXPECT_EQ(config.optimizer.clip, 2.0);
  EXPECT_EQ(data::text_of(config).weights, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(config.train.skip_steps, (std::vector<std::pair<int64_t, int64_t>>{{10, 12}, {20, 20}}));
  EXPECT_EQ(config.train.precision, Precision::fp16);
  EXPECT_EQ(config.train.device, "cpu");
  EXPECT_EQ(config.train.seed, 9223372036854775807u);
}

TEST(Parse, AcceptsInlineAndDottedTables) {
  std::string toml = valid_toml;
  toml.erase(toml.find("[checkpoint]"));
  EXPECT_EQ(parsed("checkpoint.folder = \"r\"\n" + toml, "run.toml").checkpoint.folder, "r");
  EXPECT_EQ(parsed("checkpoint = {folder = \"r\", keep = 1}\n" + toml, "run.toml").checkpoint.keep, 1);
}

TEST(Parse, NamesLineAndColumnOfASyntaxError) {
  EXPECT_EQ(complaint("[model]\nlayers = = 3\n").substr(0, 14), "run.toml:2:10:");
  EXPECT_EQ(complaint("[model]\nlayers = 1\nlayers = 2\n").substr(0, 11), "run.toml:3:");
}

TEST(Parse, RefusesAFileThatIsNotThere) {
  EXPECT_THROW(load("/nonexistent/run.toml", models::planned_families()), UserError);
}

struct WrongKey {
  std::string table, line, expected;
};

TEST(Parse, NamesWhatIsWrongWithOneKey) {
  const std::vector<WrongKey> cases = {
      {"train", "micro_batch = 2.0",
       "run.toml:12:15: train.micro_batch = 2.0 must be a whole number from 0 to 100,000,000, but is a number with a "
       "fraction; write 2"},
      {"train", "micro_batch = \"2\"",
       "run.toml:12:15: train.micro_batch = \"2\" must be a whole number from 0 to 100,000,000, but is a string"},
      {"train", "micro_batch = -3",
       "run.toml:12:15: train.micro_batch = -3 must be a whole number from 0 to 100,000,000; the nearest is 0"},
      {"model", "dropout = 1", "run.toml:2:11: model.dropout = 1 must be a number of at least 0 and below 1"},
      {"model", "dropout = nan", "run.toml:2:11: model.dropout = nan must be a number of at least 0 and below 1"},
      {"optimizer", "epsilon = 0", "run.toml:16:11: optimizer.epsilon = 0 must be a number above 0"},
      {"optimizer", "clip = inf", "run.toml:16:8: optimizer.clip = inf must be a number of at least 0"},
      {"optimizer", "clip = true",
       "run.toml:16:8: optimizer.clip = true must be a number of at least 0, but is true or false"},
      {"model", "bias = 1", "run.toml:2:8: model.bias = 1 must be true or false, but is a whole number"},
      {"model", "norm = \"batchnorm\"",
       "run.toml:2:8: model.norm = \"batchnorm\" must be \"layernorm\", \"rmsnorm\" or \"rmsnorm_1p\""},
      {"train", "precision = 16",
       "run.toml:12:13: train.precision = 16 must be \"fp32\", \"bf16\" or \"fp16\", but is a whole number"},
      {"train", "device = \"gpu\"", "run.toml:12:10: train.device = \"gpu\" must be \"auto\", \"cpu\" or \"cuda\""},
      {"data", "tokenizer = 7",
       "run.toml:9:13: data.tokenizer = 7 must be a string, but is a whole number; write \"7\""},
      {"data", "validation = \"data/v\"",
       "run.toml:9:14: data.validation = \"data/v\" must be a list of file prefixes, but is a string; write "
       "[\"data/v\"]"},
      {"data", "validation = [\"data/v.idx\"]",
       "run.toml:9:14: data.validation = [ \"data/v.idx\" ] has \"data/v.idx\" at place 1, which names one of the two "
       "files; "
       "write the prefix \"data/v\""},
      {"data", "weights = [1.0, -2]",
       "run.toml:9:11: data.weights = [ 1.0, -2 ] has -2 at place 2, which must be a number above 0"},
      {"train", "skip_steps = [10, 12]",
       "run.toml:12:14: train.skip_steps = [ 10, 12 ] has 10 at place 1, which must be a pair of steps, such as [10, "
       "12]"},
      {"train", "skip_steps = [[12, 10]]",
       "run.toml:12:14: train.skip_steps = [ [ 12, 10 ] ] has [ 12, 10 ] at place 1, which ends before it begins; "
       "write "
       "[10, 12]"},
      {"train", "skip_steps = [[0, 3]]",
       "run.toml:12:14: train.skip_steps = [ [ 0, 3 ] ] has [ 0, 3 ] at place 1, which begins before step 1, the first "
       "one"},
  };
  for (const WrongKey& one : cases) EXPECT_EQ(complaint(with_line(one.table, one.line)), one.expected);
}

TEST(Parse, GuessesMisspeltNames) {
  EXPECT_EQ(complaint(with_line("model", "head_dims = 8")),
            "run.toml:2:1: unknown key model.head_dims; did you mean head_dim?");
  EXPECT_EQ(complaint(with_line("model", "learning_rate = 8")),
            "run.toml:2:1: unknown key model.learning_rate; learning_rate belongs to [optimizer]");
  EXPECT_EQ(
      complaint(with_line("checkpoint", "qqqqqqqq = 8")),
      "run.toml:19:1: unknown key checkpoint.qqqqqqqq; [checkpoint] has folder, every, keep, keep_every, background, "
      "staging, memory_every and memory_folder");
  EXPECT_EQ(complaint(valid_toml + "[optimiser]\nclip = 1\n"),
            "run.toml:20:2: unknown table [optimiser]; did you mean [optimizer]?");
  EXPECT_EQ(complaint(valid_toml + "[zzzzzzzzzz]\n"),
            "run.toml:20:2: unknown table [zzzzzzzzzz]; there are model, data, train, optimizer, layout, checkpoint "
            "and observe");
  EXPECT_EQ(complaint("steps = 3\n" + valid_toml),
            "run.toml:1:1: steps stands outside of any table; it belongs to [train]");
  EXPECT_EQ(complaint("stops = 3\n" + valid_toml), "run.toml:1:1: unknown key stops outside of any table");
}

TEST(Parse, RecognisesYamlAndJson) {
  const std::string yaml = "run.toml: this is YAML, and TOML is wanted", json = "run.toml: this is JSON, and TOML";
  for (const char* text :
       {"train:\n  steps: 100\n", "---\nmodel: {layers: 2}\n", "# a comment\n\nsteps: 100  # a = b\n",
        "- name: \"a [b]\"\n  data: [x, y]\n", "%YAML 1.2\n---\n- 3\n"}) {
    EXPECT_EQ(complaint(text).substr(0, yaml.size()), yaml) << text;
  }
  EXPECT_EQ(complaint("\n{\n  \"train\": {\"steps\": 100}\n}\n").substr(0, json.size()), json);
  // Mistakes in TOML stay what they are, with the place.
  for (const char* text :
       {"[train]\nsteps: 100\n", "steps = 100\nfolder: a\n", "steps = = 3\n", "[train\n", "steps\n"}) {
    EXPECT_EQ(complaint(text).substr(0, 9), "run.toml:") << text;
    EXPECT_EQ(complaint(text).find("TOML is wanted"), std::string::npos) << text;
    EXPECT_NE(complaint(text).find_first_of("12"), std::string::npos) << text;
  }
}

TEST(Parse, RequiresWhatHasNoDefault) {
  std::string toml = valid_toml;
  toml.erase(toml.find("steps = 100\n"), 12);
  toml.erase(toml.find("[checkpoint]"));
  EXPECT_EQ(complaint(toml),
            "2 problems in run.toml:\n"
            "  run.toml:11:1: train.steps is missing; add to [train] a line such as steps = 1000\n"
            "  run.toml: checkpoint.folder is missing; add to [checkpoint] a line such as folder = \"runs/first\"");
  const std::string all = complaint("");
  for (const char* name :
       {"model.layers", "model.width", "model.heads", "model.sequence", "model.vocabulary", "data.train",
        "train.global_batch", "train.steps", "optimizer.learning_rate", "checkpoint.folder"}) {
    EXPECT_NE(all.find(std::string(name) + " is missing"), std::string::npos) << name;
  }
  EXPECT_EQ(all.substr(0, 11), "10 problems");
}

TEST(Parse, ReportsEveryProblemAtOnceInTheOrderOfTheFile) {
  EXPECT_EQ(complaint("[model]\nlayers = 0\nwidth = 64\nheads = 7\nsequence = 32\nvocabulary = 1000\nbiass = true\n"
                      "[data]\ntrain = []\n[train]\nglobal_batch = 10\nmicro_batch = 4\nsteps = 5\n"
                      "[optimizer]\nlearning_rate = 1e-3\nwarmup_steps = 6\n[checkpoint]\nfolder = \"\"\n",
                      {"train.seed=-1"}),
            "8 problems in run.toml:\n"
            "  run.toml:2:10: model.layers = 0 must be a whole number from 1 to 100,000; the nearest is 1\n"
            "  run.toml:4:9: model.heads = 7 does not divide model.width = 64; use 1, 2, 4, 8, 16, 32 or 64, or give "
            "head_dim\n"
            "  run.toml:7:1: unknown key model.biass; did you mean bias?\n"
            "  run.toml:9:9: data.train = [] must name at least one dataset\n"
            "  run.toml:11:16: train.global_batch = 10 is not a multiple of micro_batch = 4; use micro_batch 1, 2, 5 "
            "or 10, or "
            "global_batch 8 or 12\n"
            "  run.toml:16:16: optimizer.warmup_steps = 6 is more than train.steps = 5; use warmup_steps of 0 to "
            "5, or steps of at least 6\n"
            "  run.toml:18:10: checkpoint.folder = \"\" must not be empty\n"
            "  --set train.seed=-1: train.seed = -1 must be a whole number, at least 0; the nearest is 0");
}

TEST(Overrides, ReplaceWhatTheFileSays) {
  EXPECT_EQ(models::gpt::model_of(valid({"model.heads=4"})).heads, 4);
  EXPECT_EQ(valid({" train.steps = 7 "}).train.steps, 7);
  EXPECT_EQ(valid({"checkpoint.folder=runs/an other-one"}).checkpoint.folder, "runs/an other-one");
  EXPECT_EQ(valid({"checkpoint.folder=\"7\""}).checkpoint.folder, "7");
  EXPECT_EQ(data::text_of(valid({"data.tokenizer=\"\""})).tokenizer, "");
  EXPECT_EQ(data::text_of(valid({"data.train=[\"x=y\"]"})).train, (std::vector<std::string>{"x=y"}));
  EXPECT_EQ(parsed(with_line("train", "precision = \"fp64\""), "run.toml", {"train.precision=bf16"}).train.precision,
            Precision::bf16);
}

TEST(Overrides, ErrorsNameTheOverrideInsteadOfALine) {
  EXPECT_EQ(
      complaint_of({"model.heads=7"}),
      "--set model.heads=7: model.heads = 7 does not divide model.width = 64; use 1, 2, 4, 8, 16, 32 or 64, or give "
      "head_dim");
  EXPECT_EQ(
      complaint_of({"model.width=60"}),
      "--set model.width=60: model.heads = 8 does not divide model.width = 60; use 5, 6, 10 or 12, or give head_dim");
  EXPECT_EQ(complaint_of({"model.haeds=8"}), "--set model.haeds=8: unknown key model.haeds; did you mean heads?");
  EXPECT_EQ(complaint_of({"modle.heads=8"}), "--set modle.heads=8: unknown table [modle]; did you mean [model]?");
  EXPECT_EQ(complaint_of({"checkpoint.folder=7"}),
            "--set checkpoint.folder=7: checkpoint.folder = 7 must be a string, but is a whole number; write \"7\", "
            "in a shell --set 'checkpoint.folder=\"7\"'");
  // This is what the program gets if a user types the advice, and it is accepted.
  EXPECT_EQ(valid({"checkpoint.folder=\"7\""}).checkpoint.folder, "7");
  EXPECT_EQ(
      complaint_of({"train.steps=true"}),
      "--set train.steps=true: train.steps = true must be a whole number from 1 to 1,000,000,000,000, but is true "
      "or false");
}

TEST(Overrides, RefusesMalformedOverrides) {
  const std::string form = "must be section.key=value, such as train.steps=100";
  EXPECT_EQ(complaint_of({"train.steps"}), "--set train.steps: " + form);
  EXPECT_EQ(complaint_of({"steps=3"}), "--set steps=3: " + form + "; did you mean train.steps?");
  EXPECT_EQ(complaint_of({"fp16=true"}), "--set fp16=true: " + form + "; did you mean train.precision = \"fp16\"?");
  EXPECT_EQ(complaint_of({""}), "--set : " + form);
  EXPECT_EQ(complaint_of({"train.steps="}),
            "--set train.steps=: no value; an empty string is --set 'train.steps=\"\"'");
  EXPECT_EQ(complaint_of({"data.train=[data/a]"}),
            "--set data.train=[data/a]: the value is not valid TOML; put quotation marks around strings inside lists, "
            "such as --set 'data.train=[\"a\", \"b\"]'");
  EXPECT_EQ(complaint_of({"train.steps=1\nseed=2"}), "--set train.steps=1\nseed=2: the value must be one line");
  EXPECT_EQ(complaint_of({"data.tokenizer=\xff\xfe"}), "--set data.tokenizer=\xff\xfe: the value is not valid UTF-8");
}

TEST(Overrides, ReplaceEarlierOnesOfTheSameKey) {
  EXPECT_EQ(valid({"train.steps=1", "train.seed=3", "train.steps=2"}).train.steps, 2);
  EXPECT_EQ(valid({"train.steps=-1", "train.steps=2"}).train.steps, 2);
  EXPECT_EQ(
      complaint_of({"train.steps=2", "train.steps=-1"}),
      "--set train.steps=-1: train.steps = -1 must be a whole number from 1 to 1,000,000,000,000; the nearest is 1");
}

// A launch script of another program is translated key by key.
TEST(Parse, KnowsWhatOtherProgramsCallItsKeys) {
  EXPECT_EQ(complaint(with_line("train", "batch_size = 8")),
            "run.toml:12:1: unknown key train.batch_size; did you mean global_batch?");
  EXPECT_EQ(complaint(with_line("train", "lr = 1e-3")),
            "run.toml:12:1: unknown key train.lr; did you mean optimizer.learning_rate?");
  EXPECT_EQ(complaint("vocab_size = 3\n" + valid_toml),
            "run.toml:1:1: unknown key vocab_size outside of any table; did you mean model.vocabulary?");
  EXPECT_EQ(complaint_of({"model.num-attention-heads=8"}),
            "--set model.num-attention-heads=8: unknown key model.num-attention-heads; did you mean heads?");
  EXPECT_EQ(complaint(with_line("train", "fp16 = true")),
            "run.toml:12:1: unknown key train.fp16; did you mean precision = \"fp16\"?");
  EXPECT_EQ(complaint(with_line("train", "gradient_accumulation_steps = 4")),
            "run.toml:12:1: unknown key train.gradient_accumulation_steps; did you mean global_batch? It is "
            "train.micro_batch times the accumulated micro-batches times the data-parallel ranks");
  EXPECT_EQ(complaint(valid_toml + "[zero_optimization]\nstage = 1\n"),
            "run.toml:20:2: unknown table [zero_optimization]; did you mean layout.sharding?");
  const Family& family = *models::planned_families().front();
  const std::vector<Key> keys = keys_of(&family);
  Config config = valid({});
  for (const char* name :
       {"batch", "micro_batch_size", "global_batch_size", "seq_len", "seq_length", "lr", "warmup", "max_steps",
        "hidden_size", "num_layers", "n_layer", "n_head", "N_EMBD", "bf16",
        // Megatron-LM
        "kv-channels", "position-embedding-type", "normalization", "swiglu", "disable-bias-linear",
        "untie-embeddings-and-output-weights", "hidden-dropout", "rampup-batch-size", "train-samples",
        "lr-warmup-fraction", "init-method-std", "use-distributed-optimizer", "recompute-granularity", "data-path",
        "split", "vocab-file", "make-vocab-size-divisible-by", "layernorm-epsilon", "loss-scale",
        "reset-attention-mask", "exit-duration-in-mins", "distributed-timeout-minutes", "tensorboard-dir",
        "num-layers-per-virtual-pipeline-stage", "accumulate-allreduce-grads-in-fp32",
        // DeepSpeed
        "steps_per_print", "zero_optimization", "activation_checkpointing", "eps", "initial_scale_power",
        // torchtitan
        "local_batch_size", "max_norm", "dataset_path", "data_parallel_shard_degree", "tensor_parallel_degree",
        "pipeline_parallel_degree", "pipeline_parallel_schedule", "keep_latest_k", "log_freq", "decay_type",
        "min_lr_factor", "mixed_precision_param", "mixed_precision_reduce", "initial_load_path",
        // nanotron
        "batch_accumulation_per_replica", "pp_engine", "val_check_interval", "limit_val_batches",
        "accumulate_grad_in_fp32", "min_decay_lr", "checkpoint_interval", "checkpoints_path",
        "iteration_step_info_interval",
        // llm.c
        "num_iterations", "val_loss_every", "val_max_steps", "warmup_iterations", "final_learning_rate_frac",
        "output_log_dir", "checkpoint_every", "checkpoints_keep", "input_bin", "input_val_bin", "total_batch_size",
        // Python's transformers and nanoGPT
        "gradient_checkpointing", "num_train_epochs", "warmup_ratio", "logging_steps", "eval_steps", "fsdp",
        "attn_pdrop", "resid_pdrop", "layer_norm_eps", "initializer_range", "n_inner", "out_dir", "init_from",
        "torch_dtype"}) {
    const OwnName own = own_name_of(name, family.settings.other_names);
    const Key* key = find_key(keys, own.key);
    ASSERT_NE(key, nullptr) << name;
    if (own.value.empty()) continue;
    const toml::table table = toml::parse("value = " + own.value);
    EXPECT_EQ(key->read(*table.get("value"), config), "") << name;
  }
  EXPECT_EQ(own_name_of("xyzzy", family.settings.other_names).key, "");
}

TEST(NotBuiltYet, RefusedByName) {
  EXPECT_EQ(complaint(with_line("model", "family = \"rnn\"")),
            "run.toml:2:10: model.family = \"rnn\" must be \"gpt\", \"gnn\" or \"vit\"");
  EXPECT_EQ(complaint_of({"model.family=cnn"}),
            "--set model.family=cnn: model.family = \"cnn\" must be \"gpt\", \"gnn\" or \"vit\"");
  EXPECT_EQ(complaint(with_line("train", "d_chag = true")),
            "run.toml:12:1: train.d_chag: D-CHAG, which compresses the variables of each tensor rank and so is another "
            "model for each layout.tensor, is not built yet; remove it");
  EXPECT_EQ(
      complaint(with_line("optimizer", "type = \"muon\"")),
      "run.toml:16:1: optimizer.type: an optimizer other than AdamW, which needs no key, is not built yet; remove "
      "it");
  EXPECT_EQ(complaint_of({"train.optimizer=muon"}).substr(0, 50), "--set train.optimizer=muon: train.optimizer: an op");
  EXPECT_EQ(complaint(with_line("optimizer", "offload = true")),
            "run.toml:16:1: optimizer.offload: offloading to CPU memory is not built yet; remove it");
}

TEST(ContextRanks, ThatDoNotFitAreRefusedWithTheWayOut) {
  const auto holds = [](const std::vector<std::string>& keys, const char* part) {
    EXPECT_NE(complaint_of(keys).find(part), std::string::npos) << complaint_of(keys);
  };
  holds({"layout.context=2", "model.sequence=30"}, "into 4 pieces; use a sequence of 28 or 32");
  holds(
      {"layout.context=3", "layout.context_route=heads", "model.sequence=48"},
      "does not divide the 8 query heads of a rank, which context_route = \"heads\" gives to ranks; use 1, 2, 4 or 8");
  holds({"layout.context=3", "model.sequence=48", "model.attention_dropout=0.1"}, "or attention_dropout = 0");
  holds({"layout.context=2", "layout.context_route=ring", "model.sequence=48", "model.attention_dropout=0.1"},
        "use context_route = \"heads\", or attention_dropout = 0");
  holds({"layout.context=2", "model.sequence=48", "train.noise_scale_every=2"},
        "beside train.noise_scale_every = 2, which takes each rank's work for that of whole samples");
}

TEST(Parse, ReadsALengthOfTimeAsSecondsOrAText) {
  const auto seconds = [](const std::string& value) { return valid({"train.time_limit=" + value}).train.time_limit; };
  EXPECT_EQ(seconds("90"), 90);
  EXPECT_EQ(seconds("0.25"), 0.25);
  EXPECT_EQ(seconds("1h30m"), 5400);
  EXPECT_EQ(seconds("2d"), 172'800);
  EXPECT_EQ(seconds("1d2h3m4.5s"), 93'784.5);
  EXPECT_EQ(seconds("0.5h"), 1800);
  EXPECT_EQ(seconds("1mo"), 30.4375 * 86400);
  EXPECT_EQ(seconds("1y6mo2m"), 18 * 30.4375 * 86400 + 120);
  for (const std::string wrong :
       {"1x", "h", "30m1h", "1h1h", "-1h", "1 h", "inf", "nan", "-5", "1e3s", "2e9", "true", "[]", "90min", "''"}) {
    EXPECT_NE(complaint_of({"train.time_limit=" + wrong}).find("train.time_limit = "), std::string::npos) << wrong;
  }
  EXPECT_EQ(
      complaint_of({"train.time_limit=1:30"}),
      "--set train.time_limit=1:30: train.time_limit = \"1:30\" must be seconds, or a string such as \"1h30m\", of "
      "y, mo, d, h, m and s in this order");
}

}  // namespace
}  // namespace terrace::config
