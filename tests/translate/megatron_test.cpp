// Translates the arguments of published launches, written again here, and compares models with their published numbers
// of parameters and layouts with what the publications say of them.
#include "terrace/translate/megatron.h"

#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/translate/translated.h"

namespace terrace::translate {
namespace {

Translation megatron(const std::string& arguments, const Wishes& wishes = {}) {
  return translate_megatron(arguments, {}, wishes);
}

std::string megatron_refusal(const std::string& arguments, const Wishes& wishes = {}) {
  return refusal_of([&] { megatron(arguments, wishes); });
}

// The steps and the rate, which do not matter to these tests.
const std::string steps = " --train-iters 1000 --lr 1e-4";

// "Optimizing distributed training on Frontier for large language models" (arXiv 2312.12705): docs/frontier.md.
const std::string frontier_22b =
    "--deepspeed --deepspeed_config ds.json --zero-stage 1 --tensor-model-parallel-size 1 "
    "--pipeline-model-parallel-size 8 "
    "--num-layers 48 --hidden-size 6144 --num-attention-heads 48 --seq-length 2048 --max-position-embeddings 2048 "
    "--micro-batch-size 1 --global-batch-size 320 --bf16 --checkpoint-activations --use-flash-attn-v2 "
    "--vocab-size 50257 --make-vocab-size-divisible-by 512 --attention-dropout 0 --hidden-dropout 0" +
    steps;

TEST(MegatronArguments, OfTheFrontierStudyMakeItsConfigurations) {
  const Translation small = megatron(frontier_22b, {.devices = 16});
  const config::Config config = config_of(small);
  const config::Config published =
      config::load_for_plan(tests::source_dir() / "configs/frontier-22b.toml", models::planned_families(),
                            {"layout.pipeline=8", "layout.sharding=zero1"});
  EXPECT_EQ(models::gpt::model_of(config), models::gpt::model_of(published));
  EXPECT_EQ(config.layout, published.layout);
  EXPECT_EQ(config.train.micro_batch, 1);
  EXPECT_EQ(config.train.global_batch, 320);
  EXPECT_EQ(config.train.recompute, config::Recompute::full);
  EXPECT_EQ(config.train.precision, config::Precision::bf16);
  EXPECT_EQ(config.train.gradient_type, config::Precision::fp32);
  EXPECT_EQ(small.program, "Megatron-DeepSpeed");
  EXPECT_EQ(small.software, "megatron-deepspeed");
  EXPECT_EQ(small.devices, 16);
  EXPECT_TRUE(small.unknown.empty());
  EXPECT_TRUE(has_line_with(small.assumptions, "--deepspeed_config ds.json is not read"));

  const Translation large = megatron(
      "--deepspeed --zero-stage=1 --tensor-model-parallel-size=4 --pipeline-model-parallel-size=16 --num-layers=96 "
      "--hidden-size=12288 --num-attention-heads=96 --seq-length=2048 --max-position-embeddings=2048 "
      "--micro-batch-size=1 "
      "--global-batch-size=8000 --bf16 --checkpoint-activations --vocab-size=50257 --make-vocab-size-divisible-by=128 "
      "--attention-dropout=0 --hidden-dropout=0" +
          steps,
      {.devices = 1024});
  EXPECT_EQ(config_of(large).layout.tensor, 4);
  EXPECT_EQ(config_of(large).layout.pipeline, 16);
  const config::Config published_175b =
      config::load_for_plan(tests::source_dir() / "configs/frontier-175b.toml", models::planned_families());
  EXPECT_EQ(models::gpt::model_of(config_of(large)), models::gpt::model_of(published_175b));
}

// A model as BLOOM (arXiv 2211.05100) on LUMI: 70 layers of 14336, ALiBi and a norm behind the embedding.
const std::string lumi_175b =
    "--num-layers 70 --hidden-size 14336 --num-attention-heads 112 --seq-length 2048 --max-position-embeddings 2048 "
    "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --micro-batch-size 2 --global-batch-size 1024 "
    "--bf16 "
    "--position-embedding-type alibi --embed-layernorm --pad-vocab-size-to 250880 --vocab-size 250680 --deepspeed "
    "--zero-stage 1 --checkpoint-activations --train-samples 146_484" +
    std::string(" --lr 6e-5");

TEST(MegatronArguments, WithoutATwinAreRefusedWithWaysOut) {
  std::string arguments = lumi_175b;
  arguments.erase(arguments.find('_'), 1);
  const std::string said = megatron_refusal(arguments);
  EXPECT_TRUE(holds(said, "2 problems with the arguments of --from-megatron:"));
  EXPECT_TRUE(holds(said,
                    "--position-embedding-type alibi: positions are learned or rotary; give the value to plan with, "
                    "--set model.positions=.., or plan without it: --leave-out position-embedding-type"));
  EXPECT_TRUE(
      holds(said, "--embed-layernorm: no norm follows the embedding; plan without it: --leave-out embed-layernorm"));

  const Wishes wishes{.overrides = {"model.positions=rotary"}, .left_out = {"embed-layernorm"}, .devices = 1024};
  const Translation translation = megatron(arguments, wishes);
  EXPECT_EQ(translation.left_out, std::vector<std::string>{"--embed-layernorm"});
  const config::Config config = config_of(translation, wishes.overrides);
  EXPECT_EQ(config.layout.tensor, 8);
  EXPECT_EQ(config.layout.pipeline, 8);
  EXPECT_EQ(config.train.micro_batch, 2);
  EXPECT_EQ(config.train.steps, 146'484 / 1024);
  // BLOOM has 176,247,271,424 parameters, of which the norm behind the embedding has two for each of 14,336 channels.
  EXPECT_EQ(parameters_of(translation, wishes.overrides), 176'247'271'424 - 2 * 14'336);
}

TEST(MegatronArguments, Of33BillionParametersOnLumi) {
  const Wishes wishes{.overrides = {"model.positions=learned"}, .left_out = {"--embed_layernorm"}, .devices = 64};
  const Translation translation = megatron(
      "--num-layers 60 --hidden-size 6656 --num-attention-heads 52 --seq-length 2048 --max-position-embeddings 2048 "
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 1024 "
      "--bf16 "
      "--position-embedding-type alibi --embed-layernorm --vocab-size 50257 --deepspeed --zero-stage 1" +
          steps,
      wishes);
  const config::Config config = config_of(translation, wishes.overrides);
  EXPECT_EQ(config.layout.tensor, 2);
  EXPECT_EQ(config.layout.pipeline, 4);
  EXPECT_EQ(config.layout.sharding, config::Sharding::zero1);
  // 60 (12 h^2 + 13 h) + (V + s) h + 2 h with V = 50,432, the next multiple of 128 * 2.
  EXPECT_EQ(parameters_of(translation, wishes.overrides),
            60 * (12 * 6656LL * 6656 + 13 * 6656) + (50'432LL + 2048) * 6656 + 2 * 6656);
}

// Megatron-LM's own example of GPT-3, with the batch of its ramp-up (github.com/NVIDIA/Megatron-LM, examples/gpt3).
const std::string gpt3_175b =
    R"(torchrun --nproc_per_node 8 --nnodes 128 --master_addr node0 --master_port 6000 pretrain_gpt.py \
    --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048 \
    --micro-batch-size 1 --global-batch-size 1536 --rampup-batch-size 16 16 5859375 --train-iters 500000 \
    --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --init-method-std 0.006 --clip-grad 1.0 --fp16 --lr 6.0e-5 \
    --lr-decay-style cosine --min-lr 6.0e-6 --lr-warmup-fraction .001 --lr-decay-iters 430000 \
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 \
    --data-path 0.3 data/a_text_document 0.7 data/b_text_document --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt \
    --split 949,50,1 --log-interval 100 --save-interval 10000 --eval-interval 1000 --save runs/gpt3 --load runs/gpt3 \
    --eval-iters 10 --tensorboard-dir logs)";

TEST(MegatronArguments, OfGpt3WithItsLauncher) {
  const Translation translation = megatron(gpt3_175b);
  EXPECT_EQ(translation.devices, 1024);
  EXPECT_EQ(translation.program, "Megatron-LM");
  EXPECT_EQ(translation.software, "megatron");
  EXPECT_TRUE(translation.unknown.empty());
  const config::Config config = config_of(translation);
  // P = 12 l h^2 (1 + 13 / 12h + (V + s) / 12lh) of arXiv 2104.04473, equation 2, and the last norm: 174.6 billion.
  EXPECT_EQ(parameters_of(translation),
            12 * 96 * 12'288LL * 12'288 + 13 * 96 * 12'288LL + (51'200LL + 2048) * 12'288 + 2 * 12'288);
  EXPECT_NEAR(static_cast<double>(parameters_of(translation)), 174.6e9, 0.05e9);
  EXPECT_EQ(config.train.precision, config::Precision::fp16);
  EXPECT_EQ(config.train.gradient_type, config::Precision::fp16);
  EXPECT_EQ(config.train.initial_loss_scale, 4294967296.0);
  EXPECT_EQ(config.train.ramp_start, 16);
  EXPECT_EQ(config.train.ramp_increment, 16);
  EXPECT_EQ(config.train.ramp_samples, 5'859'375);
  EXPECT_EQ(config.optimizer.warmup_steps, 430);
  EXPECT_EQ(config.optimizer.decay_steps, 430'000);
  EXPECT_EQ(config.optimizer.schedule, config::Decay::cosine);
  EXPECT_EQ(config.optimizer.beta2, 0.95);
  EXPECT_EQ(translation.value_of("data.train"), "[\"data/a_text_document\", \"data/b_text_document\"]");
  EXPECT_EQ(translation.value_of("data.weights"), "[0.3, 0.7]");
  EXPECT_EQ(translation.value_of("data.validation_share"), "0.05");
  EXPECT_EQ(translation.value_of("checkpoint.folder"), "\"runs/gpt3\"");
  EXPECT_EQ(translation.value_of("model.dropout"), "0.1");
}

// The shape of Megatron-LM's example of Llama 3 8B (examples/llama) with the vocabulary and rotation of Llama 3.
const std::string megatron_8b =
    "--use-mcore-models --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
    "--group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length 8192 --max-position-embeddings 8192 "
    "--position-embedding-type rope --rotary-base 500000 --rotary-percent 1.0 --attention-dropout 0.0 --hidden-dropout "
    "0.0 "
    "--swiglu --normalization RMSNorm --init-method-std 0.0134 --attention-backend fused "
    "--untie-embeddings-and-output-weights --disable-bias-linear --micro-batch-size 1 --global-batch-size 128 "
    "--train-samples 1953125000 --lr-decay-samples 1949218748 --lr-warmup-samples 3906252 --lr 0.00015 --min-lr "
    "0.00001 "
    "--lr-decay-style cosine --clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --bf16 "
    "--grad-reduce-in-bf16 --cross-entropy-loss-fusion --calculate-per-token-loss --manual-gc "
    "--empty-unused-memory-level 1 "
    "--exit-duration-in-mins 235 --tensor-model-parallel-size 2 --context-parallel-size 1 --sequence-parallel "
    "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --mock-data --tokenizer-type "
    "NullTokenizer "
    "--vocab-size 128256 --tiktoken-pattern v2 --split '99,1,0' --num-workers 1";

TEST(MegatronArguments, OfLlama3) {
  const Translation translation = megatron(megatron_8b, {.devices = 8});
  EXPECT_EQ(translation.software, "megatron-core");
  EXPECT_TRUE(translation.unknown.empty());
  EXPECT_EQ(parameters_of(translation), 8'030'261'248);  // the model's card, meta-llama/Meta-Llama-3-8B
  const config::Config config = config_of(translation);
  EXPECT_EQ(config.layout.tensor, 2);
  EXPECT_TRUE(config.layout.sequence_parallel);
  EXPECT_EQ(config.layout.sharding, config::Sharding::zero1);
  EXPECT_EQ(config.train.gradient_type, config::Precision::bf16);
  EXPECT_EQ(config.train.steps, 1'953'125'000 / 128);
  EXPECT_EQ(config.optimizer.decay_steps, 1'949'218'748 / 128);
  EXPECT_EQ(config.optimizer.warmup_steps, 3'906'252 / 128);
  EXPECT_TRUE(
      holds(megatron_refusal(megatron_8b + " --apply-layernorm-1p --fp8-format hybrid"), "--fp8-format hybrid: "));
}

TEST(MegatronArguments, OfLlama2AndLlama2Of70Billion) {
  const std::string shared =
      " --seq-length 4096 --max-position-embeddings 4096 --use-rotary-position-embeddings --swiglu --normalization "
      "RMSNorm "
      "--untie-embeddings-and-output-weights --disable-bias-linear --no-position-embedding --tokenizer-type "
      "Llama2Tokenizer "
      "--make-vocab-size-divisible-by 1 --micro-batch-size 1 --bf16 --attention-dropout 0 --hidden-dropout 0" +
      steps;
  // 8/3 of 4096, down to a multiple of 64, is 10,880; Llama 2's own is 11,008, the next multiple of 256.
  const std::string small = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32" + shared;
  EXPECT_EQ(megatron(small).value_of("model.ffn_width"), "10880");
  EXPECT_EQ(parameters_of(megatron(small + " --ffn-hidden-size 11008")), 6'738'415'616);
  EXPECT_EQ(
      parameters_of(megatron("--num-layers 80 --hidden-size 8192 --num-attention-heads 64 --group-query-attention "
                             "--num-query-groups 8 --ffn-hidden-size 28672" +
                             shared)),
      68'976'648'192);
}

// The fewest arguments that the rules need.
const std::string tiny =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 "
    "--micro-batch-size 2 --vocab-size 100 --train-iters 10 ";

std::string value(const std::string& more, std::string_view key) { return megatron(tiny + more).value_of(key); }

TEST(MegatronArguments, WithoutSomeHaveTheDefaultsOfMegatron) {
  const Translation translation = megatron(tiny);
  EXPECT_EQ(translation.devices, 1);
  EXPECT_EQ(translation.value_of("train.global_batch"), "2");
  EXPECT_EQ(translation.value_of("optimizer.schedule"), "\"linear\"");
  EXPECT_EQ(translation.value_of("optimizer.weight_decay"), "0.01");
  EXPECT_EQ(translation.value_of("optimizer.beta2"), "0.999");
  EXPECT_EQ(translation.value_of("model.attention_dropout"), "0.1");
  EXPECT_EQ(translation.value_of("train.precision"), "");  // fp32 in both programs
  EXPECT_EQ(megatron(tiny + "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", {.devices = 12})
                .value_of("train.global_batch"),
            "6");
}

TEST(MegatronArguments, MakeLayouts) {
  EXPECT_EQ(value("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2", "layout.chunks"), "2");
  EXPECT_EQ(value("--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 4", "layout.chunks"), "4");
  EXPECT_EQ(value("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2", "layout.schedule"),
            "\"interleaved\"");
  EXPECT_TRUE(
      holds(megatron_refusal(tiny + "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3"),
            "--num-layers-per-virtual-pipeline-stage 3 does not divide 8 layers / 2 stages = 4; use 1, 2 or 4"));
  EXPECT_EQ(value("--pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 2", "layout.stage_layers"),
            "[2, 3, 3]");
  EXPECT_TRUE(holds(megatron_refusal(tiny + "--pipeline-model-parallel-size 3 --decoder-last-pipeline-num-layers 1"),
                    "7 layers are left for 2 other stages"));
  EXPECT_EQ(value("--use-tp-pp-dp-mapping", "layout.order"), "[\"data\", \"pipeline\", \"tensor\"]");
  EXPECT_EQ(value("--sequence-parallel", "layout.sequence_parallel"), "");  // with one tensor rank
  EXPECT_EQ(value("--use-torch-fsdp2", "layout.sharding"), "\"zero3\"");
  EXPECT_EQ(value("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", "layout.sharding"), "\"zero2\"");
  EXPECT_EQ(value("--deepspeed --no-pipeline-parallel --zero-stage 3", "layout.sharding"), "\"zero3\"");
  EXPECT_TRUE(holds(megatron_refusal(tiny + "--deepspeed --zero-stage 4"), "stages are 0, 1, 2 and 3"));
  EXPECT_EQ(value("--deepspeed --enable-zbh1-pipeline --pipeline-model-parallel-size 2", "layout.schedule"),
            "\"zb-h1\"");
  const std::string said = refusal_of([] { megatron(tiny + "--tensor-model-parallel-size 2", {.devices = 7}); });
  EXPECT_TRUE(holds(said, "7 devices are not a multiple of 2 tensor ranks * 1 stage = 2; use --devices 6"));
}

TEST(MegatronArguments, MakeContextRanks) {
  const auto route = [](const std::string& more) { return value(more, "layout.context_route"); };
  const std::string two = "--context-parallel-size 2 ";
  EXPECT_EQ(value(two, "layout.context"), "2");
  EXPECT_EQ(route(two), "\"ring\"");
  EXPECT_EQ(route(two + "--cp-comm-type all_gather"), "\"gather\"");
  EXPECT_EQ(route(two + "--cp-comm-type a2a a2a"), "\"heads\"");
  EXPECT_EQ(route("--ds-sequence-parallel-size 2"), "\"heads\"");
  EXPECT_TRUE(holds(megatron_refusal(tiny + two + "--cp-comm-type a2a+p2p"), "--set layout.context_route=.."));
  EXPECT_EQ(value("--context-parallel-size 1 --cp-comm-type p2p", "layout.context"), "");
  EXPECT_EQ(megatron(tiny + two, {.devices = 6}).devices, 6);
  EXPECT_TRUE(holds(refusal_of([&] { megatron(tiny + two, {.devices = 7}); }),
                    "7 devices are not a multiple of 1 tensor rank * 2 context ranks * 1 stage = 2; use --devices 6"));
}

TEST(MegatronArguments, MakeRecompute) {
  EXPECT_EQ(value("--recompute-activations", "train.recompute"), "\"selective\"");
  EXPECT_EQ(value("--recompute-granularity selective", "train.recompute"), "\"selective\"");
  EXPECT_EQ(
      value("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", "train.recompute"),
      "\"full\"");
  EXPECT_EQ(value("--recompute-granularity full --recompute-method block --recompute-num-layers 8", "train.recompute"),
            "\"full\"");
  EXPECT_EQ(value("--activations-checkpoint-method uniform", "train.recompute"), "\"full\"");
  const std::string block = "--recompute-granularity full --recompute-method block --recompute-num-layers 3";
  EXPECT_EQ(value(block, "train.recompute"), "\"full\"");
  EXPECT_EQ(value(block, "layout.recompute_layers"), "3");
  EXPECT_EQ(value("--recompute-granularity full --recompute-method block --recompute-num-layers 8",
                  "layout.recompute_layers"),
            "");
  EXPECT_TRUE(holds(megatron_refusal(tiny + "--recompute-granularity selective --recompute-modules mlp core_attn"),
                    "--recompute-modules mlp core_attn: "));
}

TEST(MegatronArguments, MakeModels) {
  EXPECT_EQ(value("--no-bias-gelu-fusion", "model.activation"), "\"gelu_erf\"");
  EXPECT_EQ(value("--swiglu --no-bias-swiglu-fusion", "model.activation"), "\"swiglu\"");
  EXPECT_EQ(value("--qk-layernorm --normalization RMSNorm", "model.qk_norm"), "true");
  EXPECT_TRUE(
      holds(megatron_refusal(tiny + "--qk-layernorm"), "--qk-layernorm: norms of queries and keys are RMSNorms"));
  EXPECT_EQ(value("--group-query-attention", "model.kv_heads"), "1");
  EXPECT_EQ(value("--num-query-groups 2", "model.kv_heads"), "");  // has no effect there either
  EXPECT_EQ(value("--window-size 127,0", "model.window"), "128");
  EXPECT_EQ(value("--window-size \"(127, 0)\"", "model.window"), "128");
  EXPECT_TRUE(holds(megatron_refusal(tiny + "--window-size 127,4"), "--window-size 127,4"));
  EXPECT_EQ(value("--tensor-model-parallel-size 4", "model.vocabulary_multiple"), "512");
  EXPECT_EQ(value("--position-embedding-type rope --use-rope-scaling --rope-scaling-factor 4.0", "model.rope_factor"),
            "4.0");
  EXPECT_EQ(value("--use-rotary-position-embeddings --rotary-seq-len-interpolation-factor 2", "model.rope_scaling"),
            "\"linear\"");
  EXPECT_EQ(value("--reset-position-ids --reset-attention-mask", "data.reset_at_documents"), "true");
  EXPECT_TRUE(holds(megatron_refusal(tiny + "--reset-position-ids"), "begin again together"));
}

// Samples of a ramp-up from 2 to 6 by 2 over 20 samples: 5 steps of 2, 3 of 4 (10 samples, up to whole steps), then 6.
TEST(MegatronArguments, CountTheStepsOfARampUp) {
  const std::string ramp =
      "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32 --micro-batch-size 2 --vocab-size 100 --global-batch-size 6 "
      "--rampup-batch-size 2 2 20 ";
  EXPECT_EQ(megatron(ramp + "--train-samples 22").value_of("train.steps"), "8");
  EXPECT_EQ(megatron(ramp + "--train-samples 46").value_of("train.steps"), "12");
  EXPECT_EQ(megatron(ramp + "--train-tokens 1472").value_of("train.steps"), "12");
  EXPECT_EQ(megatron(ramp + "--train-tokens 1472 --train-samples 22").value_of("train.steps"), "8");
  EXPECT_TRUE(holds(megatron_refusal(tiny + "--rampup-batch-size 2 2"), "give three whole numbers"));
}

TEST(MegatronArguments, ThatAreMissingAreAllNamed) {
  const std::string said = megatron_refusal("--bf16");
  for (const char* missing : {"--num-layers is missing", "--hidden-size", "--num-attention-heads", "--seq-length",
                              "--vocab-size", "--micro-batch-size", "--train-iters or --train-samples is missing"}) {
    EXPECT_TRUE(holds(said, missing)) << missing;
  }
  EXPECT_TRUE(holds(said, "add it, or --set model.layers=.."));
  EXPECT_EQ(
      megatron_refusal("--bf16", {.overrides = {"model.layers=2", "model.width=8", "model.heads=2", "model.sequence=8",
                                                "model.vocabulary=9", "train.micro_batch=1", "train.steps=1"}}),
      "");
}

TEST(MegatronArguments, WithWrongValuesAreRefused) {
  const auto said = [](const std::string& more) { return megatron_refusal(tiny + more); };
  EXPECT_TRUE(holds(said("--num-layers 9"), "--num-layers 8 and --num-layers 9 are both given; remove one of them"));
  EXPECT_EQ(said("--num-layers 8"), "");
  EXPECT_TRUE(holds(said("--ffn-hidden-size"), "--ffn-hidden-size has no value; give one after it"));
  EXPECT_TRUE(holds(said("--ffn-hidden-size 4 5"), "--ffn-hidden-size 4 5 has 2 values; give one"));
  EXPECT_TRUE(holds(said("--ffn-hidden-size -4"), "--ffn-hidden-size -4: the value must be a whole number from 1 to "));
  EXPECT_TRUE(
      holds(said("--ffn-hidden-size 1e3"), "--ffn-hidden-size 1e3: the value must be a whole number from 1 to "));
  EXPECT_TRUE(holds(said("--ffn-hidden-size 99999999999999999999"), "the value must be a whole number"));
  EXPECT_TRUE(holds(said("--lr nan"), "--lr nan: the value must be a number of at least 0"));
  EXPECT_TRUE(holds(said("--lr -1"), "--lr -1: the value must be a number of at least 0"));
  EXPECT_TRUE(holds(said("--swiglu yes"), "--swiglu takes no value"));
  EXPECT_TRUE(holds(said("--bf16 --fp16"), "--bf16 and --fp16 are both given"));
  EXPECT_TRUE(holds(said("--normalization BatchNorm"), "there is a twin of LayerNorm and RMSNorm only"));
  EXPECT_TRUE(holds(said("--lr-decay-style inverse-square-root"), "--set optimizer.schedule=.."));
  EXPECT_TRUE(holds(said("--lr-decay-style WSD"), "lr-wsd-decay-style"));
  EXPECT_TRUE(holds(said("--optimizer sgd"), "--optimizer sgd: the optimizer is AdamW"));
  EXPECT_TRUE(holds(said("--data-path 0.5 a b"), "has 1 weights and 2 prefixes"));
  EXPECT_TRUE(holds(said("--split a,b"), "give shares"));
  EXPECT_TRUE(holds(megatron_refusal("2 --bf16"), "\"2\" stands before the first argument"));
  EXPECT_TRUE(holds(megatron_refusal(tiny + "--max-position-embeddings 16"), "are both given"));
}

// Every argument that the table refuses ends with what to do.
TEST(MegatronArguments, ThatChangeTheTrainingAreRefusedOneByOne) {
  for (const char* refused : {"--num-experts 8",
                              "--hierarchical-context-parallel-sizes 2 4",
                              "--expert-model-parallel-size 4",
                              "--fp8-format e4m3",
                              "--apply-layernorm-1p",
                              "--squared-relu",
                              "--multi-latent-attention",
                              "--eod-mask-loss",
                              "--cpu-optimizer",
                              "--optimizer-cpu-offload",
                              "--curriculum-learning-legacy",
                              "--random-ltd",
                              "--decoupled-lr 1e-3",
                              "--start-weight-decay 0.1",
                              "--fp32-residual-connection",
                              "--mtp-num-layers 1",
                              "--rotary-percent 0.5",
                              "--init-method-xavier-uniform",
                              "--loss-scale 1024",
                              "--yaml-cfg a.yaml",
                              "--pipeline-model-parallel-layout E|t"}) {
    const std::string name = std::string(refused).substr(0, std::string(refused).find(' '));
    const std::string quoted = name == refused || !holds(refused, "|") ? refused : name + " 'E|t'";
    const std::string said = megatron_refusal(tiny + quoted);
    EXPECT_TRUE(said.starts_with(std::string(refused) + ": ")) << said;
    EXPECT_TRUE(holds(said, "--leave-out " + name.substr(2))) << said;
    EXPECT_EQ(megatron_refusal(tiny + quoted, {.left_out = {name}}), "") << refused;
  }
  for (const char* harmless : {"--num-experts 1", "--context-parallel-size 1", "--expert-model-parallel-size 1",
                               "--rotary-percent 1.0", "--ds-sequence-parallel-size 1", "--loss-scale 0"}) {
    EXPECT_EQ(megatron_refusal(tiny + harmless), "") << harmless;
  }
}

// The order of the settings is that of a configuration, and arguments that others imply are listed.
TEST(MegatronArguments, ComeInTheOrderOfAConfiguration) {
  const Translation translation = megatron(
      "--lr 1e-4 --num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 "
      "--micro-batch-size 2 --vocab-size 100 --train-iters 10",
      {.overrides = {"model.layers=4"}});
  EXPECT_EQ(translation.settings.front().key, "model.layers");
  EXPECT_TRUE(translation.settings.front().is_replaced);
  EXPECT_TRUE(translation.settings.back().key.starts_with("optimizer."));
  EXPECT_EQ(translation.agreeing, std::vector<std::string>{"--max-position-embeddings 32"});
}

TEST(MegatronArguments, ThatNoTableHasAreListed) {
  const Translation translation = megatron(tiny + "--use-warp-drive 9 --log-interval 5 --wandb-project x");
  EXPECT_EQ(translation.unknown, std::vector<std::string>{"--use-warp-drive 9"});
  EXPECT_TRUE(has_line_with(translation.without_effect, "--wandb-project x"));
}

TEST(MegatronArguments, AreCountedByOtherLaunchersToo) {
  const auto devices = [](const std::string& launcher) {
    return megatron(launcher + " pretrain_gpt.py " + tiny).devices;
  };
  EXPECT_EQ(devices("srun -N 4 --ntasks-per-node=8 python -u"), 32);
  EXPECT_EQ(devices("mpirun -np 6 python"), 6);
  EXPECT_EQ(devices("deepspeed --num_nodes 2 --num_gpus 4"), 8);
  EXPECT_EQ(devices("CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nproc_per_node=4"), 4);
  EXPECT_EQ(devices("python"), 1);
  EXPECT_EQ(megatron("torchrun --nproc_per_node=4 pretrain_gpt.py " + tiny, {.devices = 2}).devices, 2);
}

// Nothing but a UserError comes of any prefix of a launch, nor of one whose letters are changed.
TEST(MegatronArguments, ThatAreDamagedEndInAUserError) {
  for (size_t length = 0; length < gpt3_175b.size(); length += 3) megatron_refusal(gpt3_175b.substr(0, length));
  const std::string launch =
      tiny +
      "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2 --rampup-batch-size 2 2 20 "
      "--lr-warmup-fraction 0.1 --split 9,1 --window-size 4,0 --decoder-first-pipeline-num-layers 2 --data-path 1 a "
      "--deepspeed --recompute-granularity full --recompute-method block --recompute-num-layers 4";
  uint64_t state = 1;
  for (int i = 0; i < 2000; ++i) megatron_refusal(damaged(launch, state));
}

}  // namespace
}  // namespace terrace::translate
