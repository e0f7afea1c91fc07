// Tests that loading a checkpoint gives the saved model and its tokenizer.
#include "terrace/generate/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/data/text/tokenizer/tokenizer_training.h"
#include "terrace/generate/generate.h"
#include "terrace/models/families.h"
#include "tests/generate/tiny_models.h"
#include "tests/scratch_folder.h"

namespace terrace::generate {
namespace {

using testing::HasSubstr;

// A tokenizer of 300 tokens, trained on all numbers up to 2000 written out in digits and a few words.
std::filesystem::path train_tokenizer(const ScratchFolder& folder) {
  std::ofstream text(folder / "text.txt");
  for (int i = 0; i < 2000; ++i) text << "the number " << i << " comes before the number " << i + 1 << "\n";
  text.close();
  const std::string model = data::train_tokenizer(
      data::find_input_files({folder / "text.txt"}, data::FormatChoice::plain), {}, {.vocabulary = 300});
  write_text_atomically(folder / "words.model", model);
  return folder / "words.model";
}

models::gpt::ModelConfig with_vocabulary(models::gpt::ModelConfig config, int64_t vocabulary) {
  config.vocabulary = vocabulary;
  return config;
}

// The checkpoint that a trainer would save of the model: fp32 weights beside other groups.
std::filesystem::path save_run(const std::filesystem::path& folder, models::Model& model,
                               const models::gpt::ModelConfig& model_config, const std::string& tokenizer,
                               int64_t step) {
  checkpoint::State state;
  state.step = step;
  state.config = config::parse(
      "[model]\nlayers = 1\nwidth = 8\nheads = 1\nsequence = 8\nvocabulary = 8\n[data]\ntrain = [\"corpus\"]\n"
      "[train]\nglobal_batch = 1\nsteps = 1\n[optimizer]\nlearning_rate = 0.1\n[checkpoint]\nfolder = \"run\"\n",
      "run.toml", models::families());
  models::gpt::model_of(state.config) = model_config;
  if (!tokenizer.empty()) state.attached = {{"tokenizer", tokenizer, "tokenizer.model"}};
  state.collections = {{"weights", {}}, {"optimizer_m", {}}};
  for (const nn::Parameter* parameter : model.parameters()) {
    state.collections[0].tensors.push_back({parameter->name, parameter->value, parameter->mark});
  }
  return checkpoint::save(folder, state, {});
}

std::vector<float> logits_of(const models::gpt::ModelConfig& config, models::Model& model) {
  const config::Config all = whole(config);
  return models::text_of_family(all).sequences(all, model, 1, 3)->next_logits(0, std::vector<int64_t>{5, 6, 7});
}

TEST(Load, ARunFolderGivesTheNewestModelAndItsTokenizer) {
  const ScratchFolder folder;
  const std::filesystem::path tokenizer = train_tokenizer(folder);
  for (const models::gpt::ModelConfig& base : {gpt2_like(), llama_like()}) {
    const models::gpt::ModelConfig config = with_vocabulary(base, 300);
    const auto model = build(config);
    const auto older = models::gpt::build_model(config, {});
    nn::initialize(older->parameters(), 99);
    save_run(folder / "run", *older, config, tokenizer, 1);
    save_run(folder / "run", *model, config, tokenizer, 2);
    const Loaded loaded = load(folder / "run", {});
    EXPECT_EQ(loaded.step, 2);
    EXPECT_EQ(loaded.checkpoint, folder / "run/step_00000002");
    EXPECT_EQ(models::gpt::model_of(loaded.config), config);
    EXPECT_EQ(logits_of(config, *loaded.model), logits_of(config, *model));
    EXPECT_EQ(loaded.tokenizer->decode(loaded.tokenizer->encode("the number 7")), "the number 7");
    EXPECT_EQ(load(folder / "run/step_00000001", {}).step, 1);
  }
}

// The ranks may also be more than the groups of keys and values, which ranks then share.
TEST(Load, RanksThatDivideTheModelGenerateTheTextOfOneRank) {
  const ScratchFolder folder;
  const std::filesystem::path tokenizer = train_tokenizer(folder);
  for (const models::gpt::ModelConfig& base : {gpt2_like(), llama_like()}) {
    const models::gpt::ModelConfig config = with_vocabulary(base, 300);
    const auto model = build(config);
    const std::filesystem::path saved = save_run(folder / "run", *model, config, tokenizer, 1);
    const Request request{
        .prompts = {{5, 6, 7}, {8}, {9, 1, 2, 3, 4}}, .max_tokens = 12, .batch = 2, .sampling = {.temperature = 0}};
    const std::vector<Continuation> expected = generate(whole(config), *model, request);
    for (int64_t ranks : {1, 2, 4}) {
      comm::run_threads(ranks, {}, [&](comm::World& world) {
        const Loaded loaded = load(saved, {.tokenizer = {}, .world = &world});
        int64_t elements = 0;
        for (const nn::Parameter* parameter : loaded.model->parameters()) elements += parameter->value.numel();
        if (ranks > 1) {
          EXPECT_LT(elements, nn::whole_elements(model->parameters()) * 3 / 4);
        }
        const std::vector<Continuation> found = generate(loaded.config, *loaded.model, request);
        for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found.at(i).tokens, expected[i].tokens) << ranks;
      });
    }
    std::filesystem::remove_all(folder / "run");
  }
}

TEST(Load, RanksThatCannotDivideTheModelAreRefused) {
  const ScratchFolder folder;
  const models::gpt::ModelConfig config = with_vocabulary(gpt2_like(), 300);
  const auto model = build(config);
  const std::filesystem::path saved = save_run(folder / "run", *model, config, train_tokenizer(folder), 1);
  comm::run_threads(3, {}, [&](comm::World& world) {
    try {
      open(saved, {.tokenizer = {}, .world = &world});
      ADD_FAILURE() << "three ranks divide 4 heads";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("layout.tensor = 3 does not divide model.heads = 4; use 1, 2 or 4"));
    }
  });
}

TEST(Load, PrecisionRoundsTheWeightsOnce) {
  const ScratchFolder folder;
  const models::gpt::ModelConfig config = with_vocabulary(llama_like(), 300);
  const auto model = build(config);
  save_run(folder / "run", *model, config, train_tokenizer(folder), 1);
  const Loaded loaded = load(folder / "run", {.precision = config::Precision::bf16, .tokenizer = {}});
  const auto parameters = model->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor found = loaded.model->parameters()[i]->value;
    EXPECT_EQ(found.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(found.equal(parameters[i]->value.to(at::kBFloat16))) << parameters[i]->name;
  }
}

TEST(Load, ATokenizerThatIsMissingOrDoesNotFitIsRefused) {
  const ScratchFolder folder;
  const models::gpt::ModelConfig config = with_vocabulary(gpt2_like(), 299);
  const auto model = build(config);
  save_run(folder / "run", *model, config, "", 1);
  const auto refusal = [&](const LoadOptions& options) -> std::string {
    try {
      load(folder / "run", options);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({}), HasSubstr("name one with --tokenizer"));
  EXPECT_THAT(refusal({.tokenizer = train_tokenizer(folder)}), HasSubstr("has 300 tokens, but the model of"));
}

}  // namespace
}  // namespace terrace::generate
