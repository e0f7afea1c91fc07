// Defines the keys of [data] for text, and their rules.
#include "terrace/data/text/text_config.h"

#include <algorithm>
#include <iterator>

#include "terrace/base/error.h"
#include "terrace/config/phases.h"
#include "terrace/config/section_keys.h"
#include "terrace/data/order/batch_ramp.h"
#include "terrace/data/order/order_keys.h"
#include "terrace/data/staging/stage_keys.h"

namespace terrace::data {
namespace {

using config::OnResume;

std::string weights_match_corpora(const config::Config& c) {
  const size_t weights = text_of(c).weights.size(), corpora = text_of(c).train.size();
  if (weights == 0 || weights == corpora) return "";
  return fmt::format("data.weights has {} numbers for {} corpora in data.train; give {}, or []", weights, corpora,
                     corpora);
}

std::string corpora_are_disjoint(const config::Config& c) {
  for (const std::string& prefix : text_of(c).validation) {
    if (std::find(text_of(c).train.begin(), text_of(c).train.end(), prefix) == text_of(c).train.end()) continue;
    return fmt::format(
        "data.validation names \"{}\", which is in data.train too; remove it from one of them, or use validation_share",
        prefix);
  }
  return "";
}

std::string evaluation_needs_data(const config::Config& c) {
  if (c.train.evaluate_every == 0 || !text_of(c).validation.empty() || text_of(c).validation_share > 0) return "";
  return fmt::format(
      "train.evaluate_every = {} needs held-out data; give data.validation or a validation_share such as 0.01, or use "
      "evaluate_every = 0",
      c.train.evaluate_every);
}

std::string corpus_weights(const config::Config& c) {
  return text_of(c).train.size() == 1 && text_of(c).weights.size() == 1 ? "with one corpus in data.train; remove it"
                                                                        : "";
}

std::string held_out_share(const config::Config& c) {
  return text_of(c).validation.empty() ? "" : "beside data.validation; remove one of them";
}

std::string text_without_stage(const config::Config& c) {
  return text_of(c).stage.stages() ? "" : stage_bytes_without_stage;
}

std::string text_without_node(const config::Config& c) { return text_of(c).order.by_node() ? "" : shares_without_node; }

std::string order_of_nodes_has_one_mix(const config::Config& c) {
  std::string problem = problem_with_order(c, text_of(c).order);
  if (!problem.empty() || !text_of(c).order.by_node()) return problem;
  const auto advice = "; leave them out, or use data.order = \"global\"";
  if (!text_of(c).weights.empty()) {
    return fmt::format(
        "data.order = \"node\" draws from all corpora in proportion to their tokens, not by data.weights{}", advice);
  }
  const std::vector<TextPhase> phases = text_phases(c);
  if (phases.empty()) return "";
  return fmt::format("data.order = \"node\" has the same corpora in the whole run, and {} has others{}",
                     phases.front().name, advice);
}

std::string begin_token_needs_tokenizer(const config::Config& c) {
  const TextConfig& text = text_of(c);
  if (text.begin_token.empty() || !text.tokenizer.empty()) return "";
  return fmt::format("data.begin_token = \"{}\" needs data.tokenizer, which has the token; give both, or none",
                     text.begin_token);
}

}  // namespace

std::vector<TextPhase> text_phases(const config::Config& config) {
  const BatchRamp batches(config.train, config.phases);
  std::vector<TextPhase> phases;
  const TextConfig* before = &text_of(config);
  for (size_t i = 0; i < config.phases.size(); ++i) {
    const config::Phase& phase = config.phases[i];
    const TextConfig* text = &phase.data.get<TextConfig>();
    if (text->train != before->train || text->weights != before->weights) {
      phases.push_back({.name = fmt::format("{}[{}]", config::phases_key, i + 1),
                        .from_step = phase.from_step,
                        .first_sample = static_cast<uint64_t>(batches.samples_before(phase.from_step)),
                        .train = text->train,
                        .weights = text->weights});
    }
    before = text;
  }
  return phases;
}

std::vector<std::string> training_corpora(const TextConfig& config, const std::vector<TextPhase>& phases) {
  std::vector<std::string> names = config.train;
  for (const TextPhase& phase : phases) {
    std::ranges::copy_if(phase.train, std::back_inserter(names),
                         [&](const std::string& name) { return std::ranges::find(names, name) == names.end(); });
  }
  return names;
}

std::vector<std::string> text_phase_keys() { return {"train", "weights"}; }

std::vector<config::Key> text_keys() {
  using D = TextConfig;
  std::vector<config::Key> list;
  const config::SectionKeys data{"data", [](auto& config) -> decltype(auto) { return (text_of(config)); }, list};
  data.required("train", &D::train, config::Prefixes{}, OnResume::names_fixed, "[\"data/corpus\"]",
                "Corpora to train on: prefixes of .bin and .idx files, or token files of llm.c (`NAME.bin`).");
  data.optional(
      "weights", &D::weights, config::PositiveReals{}, OnResume::fixed,
      "Relative shares of the corpora in `train`, one number for each. Empty: in proportion to their tokens.");
  data.optional("validation", &D::validation, config::Prefixes{.may_be_empty = true}, OnResume::names_fixed,
                "Held-out corpora, named as in `train`. Empty: `validation_share` of `train` is held out.");
  data.optional("validation_share", &D::validation_share, config::share, OnResume::fixed,
                "Share of `train` that is held out. 0: none.");
  data.optional("reset_at_documents", &D::reset_at_documents, config::Flag{}, OnResume::fixed,
                "Attention and positions start again at document boundaries.");
  data.optional("tokenizer", &D::tokenizer, config::Text{.may_be_empty = true}, OnResume::names_fixed,
                "SentencePiece model or tokenizer.json, which is kept with each checkpoint for `terrace generate`.");
  data.optional("begin_token", &D::begin_token, config::Text{.may_be_empty = true}, OnResume::fixed,
                "Token before each document (BOS), its text or number, as `terrace data prepare --begin-token` put it "
                "there: `terrace generate` and exports begin texts with it. Empty: none.");
  data.optional("generation", &D::generation, config::Text{.may_be_empty = true}, OnResume::names_fixed,
                "transformers' generation_config.json, which is kept with each checkpoint: its end tokens for `terrace "
                "generate`, and all of it for `terrace export`.");
  add_order_keys([](auto& config) -> decltype(auto) { return (text_of(config)); }, list);
  add_stage_keys([](auto& config) -> decltype(auto) { return (text_of(config)); }, list);
  return list;
}

std::vector<config::Rule> text_rules() {
  std::vector<std::string> of_order = keys_of_order();
  of_order.insert(of_order.end(), {"data.train", "data.weights"});
  return {
      {{"data.begin_token", "data.tokenizer"}, begin_token_needs_tokenizer},
      {of_order, order_of_nodes_has_one_mix},
      {{"data.weights", "data.train"}, weights_match_corpora},
      {{"data.validation", "data.train"}, corpora_are_disjoint},
      {{"train.evaluate_every", "data.validation_share", "data.validation"}, evaluation_needs_data},
  };
}

std::vector<config::IdleRule> text_idle_rules() {
  std::vector<config::IdleRule> rules = order_idle_rules(text_without_node);
  rules.insert(rules.end(),
               {{.key = "data.weights", .causes = {"data.train"}, .off = "[]", .beside = corpus_weights},
                {.key = "data.validation_share", .causes = {"data.validation"}, .off = "0.0", .beside = held_out_share},
                stage_bytes_idle_rule(text_without_stage)});
  return rules;
}

}  // namespace terrace::data
