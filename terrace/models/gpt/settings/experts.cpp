// Defines the keys of [model] for sparse feed-forward layers, their rules, and which keys others leave without effect.
#include <algorithm>
#include <string>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/config/divisors.h"
#include "terrace/config/section_keys.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/models/gpt/settings/keys.h"

namespace terrace::models::gpt {
namespace {

using config::Choice;
using config::Config;
using config::Flag;
using config::OnResume;
using config::Real;
using config::Whole;

constexpr int64_t most_experts = 65'536;
constexpr int64_t most_expert_width = 10'000'000;

const ExpertsConfig& experts_of(const Config& c) { return model_of(c).experts; }

std::string groups_divide_experts(const Config& c) {
  const ExpertsConfig& experts = experts_of(c);
  if (experts.number == 0 || experts.number % experts.groups == 0) return "";
  return fmt::format("model.expert_groups = {} does not divide model.experts = {}; use {}", experts.groups,
                     experts.number, config::listed(config::divisors_near(experts.number, experts.groups)));
}

std::string kept_groups_exist(const Config& c) {
  const ExpertsConfig& experts = experts_of(c);
  if (experts.number == 0 || experts.groups_kept <= experts.groups) return "";
  return fmt::format("model.expert_groups_kept = {} is more than model.expert_groups = {}; use 1 to {}",
                     experts.groups_kept, experts.groups, experts.groups);
}

std::string tokens_find_experts(const Config& c) {
  const ExpertsConfig& experts = experts_of(c);
  if (experts.number == 0 || experts.number % experts.groups != 0) return "";
  const int64_t most = std::min(experts.groups_kept, experts.groups) * (experts.number / experts.groups);
  if (experts.per_token <= most) return "";
  const bool grouped = experts.groups_kept < experts.groups;
  return fmt::format("model.experts_per_token = {} is more than the {} experts {}; use 1 to {}{}", experts.per_token,
                     most, grouped ? "of the groups that are kept" : "that there are (model.experts)", most,
                     grouped ? ", or more expert_groups_kept" : "");
}

std::string some_layers_are_sparse(const Config& c) {
  const auto& [dense, layers] = std::pair(experts_of(c).dense_layers, model_of(c).layers);
  if (experts_of(c).number == 0 || dense < layers) return "";
  return fmt::format(
      "model.dense_layers = {} leaves none of model.layers = {} with experts; use 0 to {}, or remove model.experts",
      dense, layers, layers - 1);
}

// Without sequence parallelism all tensor ranks would compute the same tokens.
std::string tensor_ranks_have_own_tokens(const Config& c) {
  if (experts_of(c).number == 0 || c.layout.tensor == 1 || c.layout.sequence_parallel) return "";
  return fmt::format(
      "layout.tensor = {} with model.experts = {} lets each rank route its own positions, which needs "
      "layout.sequence_parallel = true",
      c.layout.tensor, experts_of(c).number);
}

std::string tensor_divides_shared(const Config& c) {
  const ExpertsConfig& experts = experts_of(c);
  const int64_t width = experts.shared * (experts.width > 0 ? experts.width : model_of(c).ffn_width);
  if (experts.number == 0 || width % c.layout.tensor == 0) return "";
  return fmt::format("layout.tensor = {} does not divide the width {} of model.shared_experts; use {}", c.layout.tensor,
                     width, config::listed(config::divisors_near(width, c.layout.tensor)));
}

std::string expert_ranks_divide_experts(const Config& c) {
  const int64_t ranks = c.layout.experts, number = experts_of(c).number;
  if (ranks == 1) return "";
  if (number == 0) {
    return fmt::format("layout.experts = {} divides the experts of a model that has none; use 1, or give model.experts",
                       ranks);
  }
  if (number % ranks == 0) return "";
  return fmt::format("layout.experts = {} does not divide model.experts = {}; use {}", ranks, number,
                     config::listed(config::divisors_near(number, ranks)));
}

std::string of_sparse_layers(const Config& c) {
  return experts_of(c).number > 0 ? "" : "without model.experts; remove it, or give experts";
}

std::string of_shared_experts(const Config& c) {
  if (!of_sparse_layers(c).empty() || experts_of(c).shared > 0) return of_sparse_layers(c);
  return "without model.shared_experts; remove it, or give shared_experts";
}

std::string of_groups(const Config& c) {
  if (!of_sparse_layers(c).empty() || experts_of(c).groups > 1) return of_sparse_layers(c);
  return "with one group of experts; remove it, or give expert_groups";
}

std::string of_router_bias(const Config& c) {
  if (!of_sparse_layers(c).empty() || experts_of(c).bias) return of_sparse_layers(c);
  return "without model.router_bias; remove it, or use router_bias = true";
}

}  // namespace

void add_expert_keys(std::vector<config::Key>& list) {
  using E = ExpertsConfig;
  const config::SectionKeys model{
      "model", [](auto& config) -> decltype(auto) { return (config.model.template get<ModelConfig>().experts); }, list};
  model.feature("experts", &E::number, Whole{0, most_experts}, OnResume::fixed,
                "Experts of each sparse feed-forward layer, of which a router gives each token to a few; they have no "
                "biases. 0: every feed-forward layer is dense.");
  model.feature("experts_per_token", &E::per_token, Whole{1, most_experts}, OnResume::fixed,
                "Experts that compute a token. None is dropped, however uneven the loads are.");
  model.feature("expert_width", &E::width, Whole{0, most_expert_width}, OnResume::fixed,
                "Inner width of an expert. 0: `ffn_width`.");
  model.feature("shared_experts", &E::shared, Whole{0, most_experts}, OnResume::fixed,
                "Experts that compute every token beside the chosen ones: a feed-forward layer so many times as wide "
                "as an expert.");
  model.feature("shared_gate", &E::shared_gate, Flag{}, OnResume::fixed,
                "The sum of the shared experts is multiplied by a sigmoid of the token, as in Qwen 2.");
  model.feature("dense_layers", &E::dense_layers, Whole{0, config::most_layers}, OnResume::fixed,
                "The first layers, whose feed-forward is dense and has `ffn_width`.");
  model.feature("router", &E::router, Choice<Router>{}, OnResume::fixed,
                "How scores follow from the router's product: soft-max over the experts, or a sigmoid of each as in "
                "DeepSeek-V3.");
  model.feature("router_normalise", &E::normalise, Flag{}, OnResume::fixed,
                "The weights of a token's experts are their scores divided by the sum of these; else the scores.");
  model.feature("router_factor", &E::factor, config::positive, OnResume::fixed, "Factor of these weights.");
  model.feature("expert_groups", &E::groups, Whole{1, most_experts}, OnResume::fixed,
                "Groups of neighbouring experts, which must divide `experts`.");
  model.feature("expert_groups_kept", &E::groups_kept, Whole{1, most_experts}, OnResume::fixed,
                "Groups that a token's experts come from: those with the largest sums of their two best scores.");
  model.feature("router_bias", &E::bias, Flag{}, OnResume::fixed,
                "A bias of each expert is added to the scores for the choice alone, and moved after each step against "
                "the loads of the whole step, as in DeepSeek-V3.");
  model.feature("router_bias_rate", &E::bias_rate, Real{.least = 0}, OnResume::may_change,
                "What a step adds to the bias of an expert with less than even load, and takes from the others.");
  model.feature("balance_loss", &E::balance_loss, Real{.least = 0}, OnResume::may_change,
                "Factor of the balance loss of each sequence in each layer, which is 1 at even load.");
  model.feature("router_z_loss", &E::z_loss, Real{.least = 0}, OnResume::may_change,
                "Factor of the mean of logsumexp(scores)² over tokens in each layer.");
}

void add_expert_rules(std::vector<config::Rule>& list) {
  const std::string experts = "model.experts";
  list.push_back({{"model.expert_groups", experts}, groups_divide_experts});
  list.push_back({{"model.expert_groups_kept", "model.expert_groups", experts}, kept_groups_exist});
  list.push_back(
      {{"model.experts_per_token", "model.expert_groups_kept", "model.expert_groups", experts}, tokens_find_experts});
  list.push_back({{"model.dense_layers", "model.layers", experts}, some_layers_are_sparse});
  list.push_back({{"layout.sequence_parallel", "layout.tensor", experts}, tensor_ranks_have_own_tokens});
  list.push_back({{"layout.experts", experts}, expert_ranks_divide_experts});
  list.push_back({{"layout.tensor", "model.shared_experts", "model.expert_width", experts}, tensor_divides_shared});
}

void add_expert_idle_rules(std::vector<config::IdleRule>& list) {
  const std::string experts = "model.experts";
  for (const char* key : {"experts_per_token", "router", "router_normalise", "router_factor", "expert_groups"}) {
    list.push_back({.key = std::string("model.") + key, .causes = {experts}, .beside = of_sparse_layers});
  }
  for (const char* key : {"expert_width", "shared_experts", "dense_layers"}) {
    list.push_back({.key = std::string("model.") + key, .causes = {experts}, .off = "0", .beside = of_sparse_layers});
  }
  for (const char* key : {"balance_loss", "router_z_loss"}) {
    list.push_back({.key = std::string("model.") + key, .causes = {experts}, .off = "0.0", .beside = of_sparse_layers});
  }
  list.push_back({.key = "model.router_bias", .causes = {experts}, .off = "false", .beside = of_sparse_layers});
  list.push_back({.key = "model.shared_gate",
                  .causes = {experts, "model.shared_experts"},
                  .off = "false",
                  .beside = of_shared_experts});
  list.push_back({.key = "model.expert_groups_kept", .causes = {experts, "model.expert_groups"}, .beside = of_groups});
  list.push_back({.key = "model.router_bias_rate", .causes = {experts, "model.router_bias"}, .beside = of_router_bias});
}

}  // namespace terrace::models::gpt
