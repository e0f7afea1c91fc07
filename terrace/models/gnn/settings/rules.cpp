// Defines the rules between the keys of a graph network and with [train] and [layout].
#include <algorithm>
#include <set>
#include <string>

#include "terrace/base/error.h"
#include "terrace/config/divisors.h"
#include "terrace/config/domain.h"
#include "terrace/models/gnn/settings/config.h"
#include "terrace/models/gnn/settings/keys.h"

namespace terrace::models::gnn {
namespace {

using config::Config;

std::string key_of(const ModelConfig& model, const OutputConfig& output) {
  return fmt::format("model.outputs[{}] (name = \"{}\")", &output - model.outputs.data() + 1, output.name);
}

std::string output_names(const ModelConfig& model) {
  std::vector<std::string> names;
  for (const OutputConfig& output : model.outputs) names.push_back("\"" + output.name + "\"");
  return config::listed(names, "and");
}

// The sentences about single outputs, one after another.
template <typename Problem>
std::string of_each(const Config& c, const Problem& problem) {
  const ModelConfig& model = model_of(c);
  std::string text;
  for (const OutputConfig& output : model.outputs) {
    const std::string sentence = problem(model, output);
    if (!sentence.empty()) text += (text.empty() ? "" : "; ") + key_of(model, output) + " " + sentence;
  }
  return text;
}

std::string there_are_outputs(const Config& c) {
  if (!model_of(c).outputs.empty()) return "";
  return "model.outputs is empty, so there is nothing to learn; add [[model.outputs]] with a line such as name = "
         "\"energy\"";
}

bool is_name(const std::string& name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return is_letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

std::string names_are_words(const Config& c) {
  return of_each(c, [](const ModelConfig&, const OutputConfig& output) -> std::string {
    if (is_name(output.name)) return "";
    return "has a name that is no key of the metrics; use lower-case letters, digits and _, and label = for the "
           "property's name";
  });
}

std::string names_differ(const Config& c) {
  std::set<std::string> names;
  return of_each(c, [&](const ModelConfig&, const OutputConfig& output) -> std::string {
    if (names.insert(output.name).second) return "";
    return "has the name of another output; give it one of its own, and label = for the property's name";
  });
}

std::string heads_fit_levels(const Config& c) {
  return of_each(c, [](const ModelConfig&, const OutputConfig& output) -> std::string {
    if (output.is_derivative()) return "";
    if (output.head == HeadKind::conv && output.level == Level::graph) {
      return "has level = \"graph\", and head = \"conv\" is for outputs of nodes; use \"dense\" or \"atomwise\"";
    }
    if (output.level == Level::graph) return "";
    if (output.head == HeadKind::atomwise) {
      return "has level = \"node\", and head = \"atomwise\" sums over a graph; use \"dense\" or \"conv\"";
    }
    if (output.per_atom) return "has level = \"node\", and per_atom divides values of graphs; remove per_atom";
    if (output.offset == Offset::elements) {
      return "has level = \"node\", and offset = \"elements\" is for outputs of graphs; use \"mean\" or \"none\"";
    }
    if (output.head == HeadKind::conv && output.width != 0) {
      return "has head = \"conv\", whose layers have model.width; remove its width";
    }
    return "";
  });
}

std::string uncertain_has_its_own_loss(const Config& c) {
  return of_each(c, [](const ModelConfig&, const OutputConfig& output) -> std::string {
    if (!output.uncertain || output.loss == LossKind::mse) return "";
    return fmt::format("has uncertain = true, whose loss is the likelihood; remove loss = \"{}\"",
                       config::name_of(output.loss));
  });
}

std::string derivatives_have_no_heads(const Config& c) {
  return of_each(c, [](const ModelConfig&, const OutputConfig& output) -> std::string {
    if (!output.is_derivative()) {
      if (output.derivative == Derivative::forces) return "";
      return "has derivative = \"stress\" and no derivative_of; name the output, as derivative_of = \"energy\"";
    }
    OutputConfig plain{.name = output.name,
                       .label = output.label,
                       .weight = output.weight,
                       .loss = output.loss,
                       .derivative_of = output.derivative_of,
                       .derivative = output.derivative};
    if (plain == output) return "";
    return "is a derivative, which has no head: remove all of its keys but name, label, weight, loss, derivative_of "
           "and derivative";
  });
}

std::string derivatives_are_of_energies(const Config& c) {
  return of_each(c, [](const ModelConfig& model, const OutputConfig& output) -> std::string {
    if (!output.is_derivative()) return "";
    const int64_t number = find_output(model, output.derivative_of);
    if (number < 0) {
      return fmt::format("has derivative_of = \"{}\", and the outputs are {}", output.derivative_of,
                         output_names(model));
    }
    const OutputConfig& energy = model.outputs[static_cast<size_t>(number)];
    const bool is_energy = !energy.is_derivative() && energy.level == Level::graph && energy.columns == 1 &&
                           (energy.head == HeadKind::automatic || energy.is_atomwise());
    if (!is_energy) {
      return fmt::format(
          "is the derivative of \"{}\", which must be an output of graphs with one column and head = \"atomwise\", so "
          "that it is the sum over the atoms",
          energy.name);
    }
    for (const OutputConfig& other : model.outputs) {
      if (&other == &output) break;
      if (other.derivative_of == output.derivative_of && other.derivative == output.derivative) {
        return fmt::format("is the same derivative as \"{}\"; remove one of them", other.name);
      }
    }
    return "";
  });
}

std::string derivatives_have_one_stage(const Config& c) {
  if (c.layout.pipeline == 1 || !model_of(c).has_derivatives()) return "";
  return fmt::format(
      "layout.pipeline = {} and forces or stress among model.outputs: their gradients need the graph of all layers on "
      "one rank; use pipeline = 1, and sharding = \"zero3\" where memory is short",
      c.layout.pipeline);
}

std::string derivatives_keep_their_graph(const Config& c) {
  if (c.train.recompute == config::Recompute::none || !model_of(c).has_derivatives()) return "";
  return fmt::format(
      "train.recompute = \"{}\" and forces or stress among model.outputs, whose gradients need what recompute would "
      "drop; use \"none\", and smaller train.micro_batch_sizes where memory is short",
      config::name_of(c.train.recompute));
}

// The setting that brings batch norm into the network, and how to leave batch norm out.
std::string source_of_batch_norm(const ModelConfig& model) {
  return model.norm == NormKind::batch
             ? "model.norm = \"batch\""
             : "the batch norm that conv heads have with model.reading = \"hydragnn\" and model.norm = \"none\"";
}

std::string batch_norm_keeps_molecules_apart(const Config& c) {
  if (model_of(c).norm != NormKind::batch || !model_of(c).has_derivatives()) return "";
  return "model.norm = \"batch\" and forces or stress among model.outputs: an energy would depend on the other "
         "structures of the batch, so that one molecule pushed another; use \"layer\" or \"none\"";
}

std::string batch_norm_has_one_forward(const Config& c) {
  if (!model_of(c).has_batch_norm() || c.train.recompute == config::Recompute::none) return "";
  return fmt::format(
      "train.recompute = \"{}\" and {}, whose sums over all ranks would be taken twice; use "
      "recompute = \"none\", or norm = \"layer\"",
      config::name_of(c.train.recompute), source_of_batch_norm(model_of(c)));
}

std::string batch_norm_has_no_budget(const Config& c) {
  if (!model_of(c).has_batch_norm() || c.train.micro_batch_sizes.empty()) return "";
  return fmt::format(
      "train.micro_batch_sizes = {} and {}: a rank would have as many micro-batches as its samples "
      "need, and batch norm takes its statistics over one; remove micro_batch_sizes, or use norm = \"layer\"",
      config::toml_text(c.train.micro_batch_sizes), source_of_batch_norm(model_of(c)));
}

std::string batch_norm_sums_over_all_copies(const Config& c) {
  if (!model_of(c).has_batch_norm() || c.layout.outer_every == 0) return "";
  return fmt::format(
      "layout.outer_every = {} and {}, whose statistics are those of all ranks in every step, so that copies do not "
      "train by themselves; use outer_every = 0, or norm = \"layer\"",
      c.layout.outer_every, source_of_batch_norm(model_of(c)));
}

std::string derivatives_need_positions(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.conv != Conv::gin || !model.has_derivatives()) return "";
  return "model.conv = \"gin\" does not see where atoms are, so that forces and stress would be 0; use \"painn\", "
         "\"schnet\" or \"egnn\"";
}

std::string cap_keeps_energies_smooth(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.max_neighbours == 0 || model.cap_with_forces || !model.has_derivatives()) return "";
  return fmt::format(
      "model.max_neighbours = {} and forces or stress among model.outputs: energies jump where an atom enters or "
      "leaves "
      "the list; use max_neighbours = 0, or cap_with_forces = true to do it all the same",
      model.max_neighbours);
}

std::string cutoff_fits_layers(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.cutoff == Cutoff::none && always_has_cutoff(model.conv)) {
    return fmt::format("model.cutoff = \"none\" and conv = \"{}\", whose layers have one; use \"cosine\" or \"auto\"",
                       config::name_of(model.conv));
  }
  if (model.cutoff == Cutoff::cosine && !can_have_cutoff(model.conv)) {
    return fmt::format("model.cutoff = \"cosine\" and conv = \"{}\", whose sums {}; use \"none\" or \"auto\"",
                       config::name_of(model.conv),
                       model.conv == Conv::pna ? "are scaled by the number of edges" : "do not read where atoms are");
  }
  return "";
}

// This rule is for pna alone, since gin has no derivatives.
std::string layers_keep_energies_smooth(const Config& c) {
  const ModelConfig& model = model_of(c);
  const bool is_asked_for = model.cutoff == Cutoff::none;
  if (model.conv != Conv::pna || is_asked_for || model.edges == Edges::given || !model.has_derivatives()) return "";
  return "model.conv = \"pna\" and forces or stress among model.outputs: energies jump where an atom crosses the "
         "radius, since pna takes extremes and numbers of edges; use \"painn\", \"schnet\", \"egnn\", \"gatv2\" or "
         "\"cgcnn\", or model.cutoff = \"none\" to do it all the same";
}

std::string nothing_is_cut(const Config& c) {
  if (c.layout.tensor == 1) return "";
  return fmt::format(
      "layout.tensor = {} and the layers of model.family = \"gnn\" are not cut; use 1, and more data-parallel ranks "
      "with a sharding such as \"zero3\"",
      c.layout.tensor);
}

std::string computes_in_fp32(const Config& c) {
  if (c.train.precision == config::Precision::fp32) return "";
  return fmt::format("train.precision = \"{}\" and models of model.family = \"gnn\" are computed in fp32; use \"fp32\"",
                     config::name_of(c.train.precision));
}

std::string selects_nothing(const Config& c) {
  if (c.train.recompute != config::Recompute::selective) return "";
  return "train.recompute = \"selective\" recomputes the attention of transformers, which models of model.family = "
         "\"gnn\" do not have; use \"full\" or \"none\"";
}

std::string heads_divide_width(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.conv != Conv::gatv2 || model.width % model.heads == 0) return "";
  return fmt::format("model.heads = {} does not divide model.width = {}; use {}", model.heads, model.width,
                     config::listed(config::divisors_near(model.width, model.heads)));
}

std::string gaussians_have_a_spacing(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.conv == Conv::painn || model.radial != 1) return "";
  return fmt::format("model.radial = 1, and the width of Gaussians with conv = \"{}\" is their spacing; use at least 2",
                     config::name_of(model.conv));
}

std::string edge_features_are_of_given_edges(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.edge_features.empty()) return "";
  if (model.edges == Edges::radius) {
    return "model.edge_features are properties of the edges of files, and model.edges = \"radius\" makes others; use "
           "edges = \"given\", or remove edge_features";
  }
  if (model.reads_edge_features()) return "";
  return fmt::format(
      "model.edge_features have no effect with conv = \"{}\"; use \"egnn\", \"pna\", \"gatv2\" or "
      "\"cgcnn\", or remove them",
      config::name_of(model.conv));
}

std::string branches_are_datasets(const Config& c) {
  const int64_t branches = model_of(c).branches, datasets = std::ssize(data_of(c).train);
  if (branches == 0 || branches == datasets) return "";
  return fmt::format("model.branches = {} and data.train has {} datasets; use {}, or 0 for one head for all", branches,
                     datasets, datasets);
}

constexpr int64_t most_coarse_levels = 20;

std::string a_layer_follows_clusters(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.pool_every == 0) return "";
  if (model.pool_every >= model.layers) {
    return fmt::format("model.pool_every = {} and model.layers = {}: no layer is left for the coarser graph; use {}",
                       model.pool_every, model.layers,
                       model.layers == 1   ? "pool_every = 0"
                       : model.layers == 2 ? "1, or 0 for none"
                                           : fmt::format("1 to {}, or 0 for none", model.layers - 1));
  }
  if (model.coarse_levels() <= most_coarse_levels) return "";
  return fmt::format(
      "model.pool_every = {} and model.layers = {} cluster the nodes {} times, and {} times make one node of a "
      "million; "
      "use pool_every = {} or more",
      model.pool_every, model.layers, model.coarse_levels(), most_coarse_levels,
      (model.layers - 1) / (most_coarse_levels + 1) + 1);
}

std::string clusters_have_scalars_alone(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.pool_every == 0) return "";
  if (model.conv == Conv::painn) {
    return fmt::format(
        "model.pool_every = {} and model.conv = \"painn\", whose vectors of atoms have no mean over a cluster yet; use "
        "\"schnet\", \"egnn\", \"pna\", \"gin\", \"gatv2\" or \"cgcnn\", or pool_every = 0",
        model.pool_every);
  }
  if (model.conv != Conv::egnn || !model.equivariance) return "";
  return fmt::format(
      "model.pool_every = {} and model.equivariance = true: what layers move are atoms and no clusters; use "
      "equivariance "
      "= false or pool_every = 0",
      model.pool_every);
}

std::string clusters_jump(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.pool_every == 0 || !model.has_derivatives()) return "";
  return fmt::format(
      "model.pool_every = {} and forces or stress among model.outputs: clusters, and so energies, jump when atoms "
      "move; "
      "use pool_every = 0",
      model.pool_every);
}

// Reasons why keys have no effect.

std::string without_radial(const Config& c) {
  const Conv conv = model_of(c).conv;
  return has_radial(conv) ? "" : fmt::format("with model.conv = \"{}\"; remove it", config::name_of(conv));
}

std::string beside_conv(const Config& c, Conv needed) {
  if (model_of(c).conv == needed) return "";
  return fmt::format("with model.conv = \"{}\"; remove it, or use conv = \"{}\"", config::name_of(model_of(c).conv),
                     config::name_of(needed));
}
std::string beside_reading_of_papers(const Config& c) {
  return model_of(c).reading == Reading::hydragnn ? "" : "with model.reading = \"paper\"; remove it";
}

std::string without_filters(const Config& c) { return beside_conv(c, Conv::schnet); }
std::string without_heads(const Config& c) { return beside_conv(c, Conv::gatv2); }
std::string without_moves(const Config& c) { return beside_conv(c, Conv::egnn); }

std::string beside_given_edges(const Config& c) {
  return model_of(c).edges == Edges::radius ? "" : "with model.edges = \"given\"; remove it";
}

std::string without_pooled_heads(const Config& c) {
  return model_of(c).has_pooled_heads() ? "" : "as no output of model.outputs pools the atoms; remove it";
}

std::string without_shared_layers(const Config& c) {
  return model_of(c).shared_layers > 0 ? "" : "with model.shared_layers = 0; remove it";
}

std::string without_cap(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.max_neighbours == 0) return "with model.max_neighbours = 0; remove it";
  return model.has_derivatives() ? "" : "without forces or stress among model.outputs; remove it";
}

}  // namespace

std::vector<config::Rule> rules() {
  return {
      {{"model.outputs"}, there_are_outputs},
      {{"model.outputs"}, names_are_words},
      {{"model.outputs"}, names_differ},
      {{"model.outputs"}, heads_fit_levels},
      {{"model.outputs"}, uncertain_has_its_own_loss},
      {{"model.outputs"}, derivatives_have_no_heads},
      {{"model.outputs"}, derivatives_are_of_energies},
      {{"layout.pipeline", "model.outputs"}, derivatives_have_one_stage},
      {{"train.recompute", "model.outputs"}, derivatives_keep_their_graph},
      {{"model.norm", "model.outputs"}, batch_norm_keeps_molecules_apart},
      {{"train.recompute", "model.norm", "model.outputs"}, batch_norm_has_one_forward},
      {{"train.micro_batch_sizes", "model.norm", "model.outputs"}, batch_norm_has_no_budget},
      {{"layout.outer_every", "model.norm", "model.outputs"}, batch_norm_sums_over_all_copies},
      {{"model.conv", "model.outputs"}, derivatives_need_positions},
      {{"model.max_neighbours", "model.cap_with_forces", "model.outputs"}, cap_keeps_energies_smooth},
      {{"model.cutoff", "model.conv"}, cutoff_fits_layers},
      {{"model.conv", "model.cutoff", "model.edges", "model.outputs"}, layers_keep_energies_smooth},
      {{"layout.tensor"}, nothing_is_cut},
      {{"train.precision"}, computes_in_fp32},
      {{"train.recompute"}, selects_nothing},
      {{"model.heads", "model.width", "model.conv"}, heads_divide_width},
      {{"model.radial", "model.conv"}, gaussians_have_a_spacing},
      {{"model.edge_features", "model.edges", "model.conv"}, edge_features_are_of_given_edges},
      {{"model.branches", "data.train"}, branches_are_datasets},
      {{"model.pool_every", "model.layers"}, a_layer_follows_clusters},
      {{"model.pool_every", "model.conv", "model.equivariance"}, clusters_have_scalars_alone},
      {{"model.pool_every", "model.outputs"}, clusters_jump},
  };
}

std::vector<config::IdleRule> idle_rules() {
  return {
      {.key = "model.reading_version", .causes = {"model.reading"}, .off = "0", .beside = beside_reading_of_papers},
      {.key = "model.radial", .causes = {"model.conv"}, .off = "0", .beside = without_radial},
      {.key = "model.filters", .causes = {"model.conv"}, .off = "0", .beside = without_filters},
      {.key = "model.heads", .causes = {"model.conv"}, .beside = without_heads},
      {.key = "model.equivariance", .causes = {"model.conv"}, .off = "false", .beside = without_moves},
      {.key = "model.max_neighbours", .causes = {"model.edges"}, .off = "0", .beside = beside_given_edges},
      {.key = "model.cap_with_forces",
       .causes = {"model.max_neighbours", "model.outputs"},
       .off = "false",
       .beside = without_cap},
      {.key = "model.pooling", .causes = {"model.outputs"}, .off = "\"add\"", .beside = without_pooled_heads},
      {.key = "model.shared_layers", .causes = {"model.outputs"}, .off = "0", .beside = without_pooled_heads},
      {.key = "model.shared_width", .causes = {"model.shared_layers"}, .off = "0", .beside = without_shared_layers},
  };
}

}  // namespace terrace::models::gnn
