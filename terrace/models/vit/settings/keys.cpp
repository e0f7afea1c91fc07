// Defines the keys of [model] that a vision transformer has.
#include "terrace/models/vit/settings/keys.h"

#include "terrace/config/section_keys.h"
#include "terrace/models/vit/settings/config.h"

namespace terrace::models::vit {
namespace {

using config::Choice;
using config::Flag;
using config::most_layers;
using config::most_width;
using config::OnResume;
using config::positive;
using config::Real;
using config::share;
using config::Texts;
using config::Whole;

constexpr int64_t most_heads = 10'000, most_patch = 1'000;

}  // namespace

std::vector<config::Key> keys() {
  using M = ModelConfig;
  std::vector<config::Key> list;
  const config::SectionKeys model{
      "model", [](auto& config) -> decltype(auto) { return (config.model.template get<ModelConfig>()); }, list};
  model.required("variables", &M::variables, Texts{}, OnResume::fixed, "[\"2m_temperature\", \"temperature_850\"]",
                 "Names of the variables that the model is given, as the prepared data have them.");
  model.optional("outputs", &M::outputs, Texts{.may_be_empty = true}, OnResume::fixed,
                 "Names of those of `variables` that it predicts. None: all of them.");
  model.required("grid", &M::grid, config::WholeNumbers{}, OnResume::fixed, "[32, 64]",
                 "Latitudes and longitudes of the fields.");
  model.required(
      "patch", &M::patch, Whole{1, most_patch}, OnResume::fixed, "2",
      "Rows and columns of a patch, which becomes one token; divides the longitudes. Where it does not divide "
      "the latitudes, the last row of patches repeats the last latitude.");
  model.required("layers", &M::layers, Whole{1, most_layers}, OnResume::fixed, "8", "Transformer blocks.");
  model.required("width", &M::width, Whole{1, most_width}, OnResume::fixed, "1024", "Hidden size; a multiple of 4.");
  model.required("heads", &M::heads, Whole{1, most_heads}, OnResume::fixed, "16", "Attention heads; divides `width`.");
  model.optional("mlp_ratio", &M::mlp_ratio, positive, OnResume::fixed,
                 "Inner width of a feed-forward block, as a multiple of `width`.");
  model.optional("head_layers", &M::head_layers, Whole{0, 100}, OnResume::fixed,
                 "Hidden layers of the head, which turns tokens into patches of the outputs.");
  model.optional("qk_norm", &M::qk_norm, Flag{}, OnResume::fixed,
                 "LayerNorm of the queries and keys of each head, as in ORBIT, in the aggregation of variables too.");
  model.optional("lead_embedding", &M::lead_embedding, Flag{}, OnResume::fixed,
                 "How far ahead it predicts is an input of the model.");
  model.optional("time_inputs", &M::time_inputs, Flag{}, OnResume::fixed,
                 "The day of the year and the hour of the day of the start are inputs of the model.");
  model.optional("predicts", &M::predicts, Choice<Predicts>{}, OnResume::fixed,
                 "What the network computes: the normalised field itself, its change since the last input, its "
                 "anomaly, the difference from climatology, or (damped_anomaly) what the anomaly is beside that of "
                 "the last input times a trained coefficient of each output and place. The last takes one lead.");
  model.optional("loss_weights", &M::loss_weights, config::NumbersByName{}, OnResume::may_change,
                 "Weights of outputs in the loss, by name; 1 where none is given.");
  model.optional("norm_epsilon", &M::norm_epsilon, positive, OnResume::fixed, "Added to the variance in norms.");
  model.optional("dropout", &M::dropout, share, OnResume::may_change,
                 "Dropout rate of the embedding, of the outputs of attention and twice in feed-forward blocks.");
  model.optional("drop_path", &M::drop_path, share, OnResume::may_change,
                 "Stochastic depth: the rate at which a sample skips the last block; it falls to 0 at the first.");
  return list;
}

}  // namespace terrace::models::vit
