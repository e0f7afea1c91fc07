// Computes the numbers of parts and the members of groups.
#include "terrace/mesh/shards.h"

#include <algorithm>
#include <string>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/config/shard_groups.h"
#include "terrace/config/wire_type.h"

namespace terrace::mesh {
namespace {

using config::ShardGroup;
using Word = ShardGroup::Word;

// Data-parallel ranks within `ranks` neighbouring ranks of the world.
int64_t data_ranks_within(int64_t ranks, const Mesh& mesh) {
  const std::vector<int64_t> data = mesh.group(0, shard_axes, "data").ranks;
  const auto end = std::ranges::find_if(data, [&](int64_t rank) { return rank >= ranks; });
  return std::max<int64_t>(1, end - data.begin());
}

int64_t size_of(const ShardGroup& group, const Mesh& mesh) {
  switch (group.word) {
    case Word::as_sharding:
    case Word::none:
      return 1;
    case Word::pair:
      return data_ranks_within(std::min(mesh.topology().ranks_per_pair, mesh.topology().ranks_per_node), mesh);
    case Word::node:
      return data_ranks_within(mesh.topology().ranks_per_node, mesh);
    case Word::all:
      return mesh.size(shard_axes);
    case Word::number:
      return group.number;
  }
  return 1;
}

std::string divisors_of(int64_t number) {
  std::string text;
  for (int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) text += fmt::format("{}{}", text.empty() ? "" : i == number ? " or " : ", ", i);
  }
  return text;
}

std::string too_large(const char* inner, int64_t inner_size, const char* outer, int64_t outer_size) {
  if (outer_size % inner_size == 0) return "";
  return fmt::format("\n  {} over {} ranks do not fit {} {}; use {}", inner, inner_size, outer, outer_size,
                     divisors_of(outer_size));
}

// The data-parallel ranks of each node, in every group of them; 0 where nodes differ in it.
int64_t data_ranks_of_nodes(const Mesh& mesh) {
  const std::vector<int64_t> data = mesh.group(0, shard_axes, "data").ranks;
  const int64_t node = mesh.topology().ranks_per_node, size = std::ssize(data);
  const int64_t stride = size > 1 ? data[1] - data[0] : 1, together = size * stride;
  if (stride % node == 0) return 1;
  if (node % stride != 0) return 0;
  if (together % node == 0) return node / stride;
  return node % together == 0 ? size : 0;
}

std::string not_by_rails(const ShardSizes& sizes, const Mesh& mesh) {
  const int64_t node = data_ranks_of_nodes(mesh);
  if (node == 0) {
    return "\n  route = \"rails\" needs the same number of data-parallel ranks on all nodes; use \"flat\"";
  }
  std::string problems;
  const auto check = [&](const char* what, int64_t size) {
    if (size % node == 0 || node % size == 0) return;
    problems += fmt::format(
        "\n  route = \"rails\" among nodes of {} data-parallel ranks does not fit {} over {}; use "
        "\"flat\"",
        node, what, size);
  };
  check("weights", sizes.weights);
  check("gradients", sizes.gradients);
  check("optimizer states", sizes.optimizer);
  return problems;
}

std::vector<int64_t> filled(int64_t size) { return std::vector<int64_t>(static_cast<size_t>(size)); }

}  // namespace

ShardSizes shard_sizes(const config::LayoutConfig& layout, const Mesh& mesh) {
  const config::ShardGroups groups = config::shard_groups(layout);
  ShardSizes sizes{.weights = size_of(groups.weights, mesh),
                   .gradients = size_of(groups.gradients, mesh),
                   .optimizer = size_of(groups.optimizer, mesh),
                   .ranks = mesh.size(shard_axes),
                   .local_steps = layout.outer_every > 0};
  std::string problems =
      too_large("weights", sizes.weights, "gradients, which are cut over", sizes.gradients) +
      too_large("gradients", sizes.gradients, "optimizer states, which are cut over", sizes.optimizer) +
      too_large("optimizer states", sizes.optimizer, "the data-parallel ranks, of which there are", sizes.ranks);
  if (layout.route == config::Routing::rails) {
    problems += not_by_rails(sizes, mesh);
    sizes.rails_node = data_ranks_of_nodes(mesh);
  }
  if (layout.node_type != config::NodeType::as_others) {
    sizes.typed_node = data_ranks_of_nodes(mesh);
    if (sizes.typed_node == 0) {
      problems += "\n  node_type needs the same number of data-parallel ranks on all nodes; use \"as others\"";
    }
  }
  if (problems.empty()) return sizes;
  throw UserError("[layout] cuts weights, gradients and optimizer states over groups that must lie in each other:" +
                  problems);
}

std::optional<ShardSizes> rails_sizes(ShardSizes sizes, const Mesh& mesh) {
  if (!not_by_rails(sizes, mesh).empty()) return std::nullopt;
  sizes.rails_node = data_ranks_of_nodes(mesh);
  return sizes;
}

ShardPlace::ShardPlace(const ShardSizes& s, int64_t d)
    : sizes(s),
      gather(filled(s.weights)),
      reduce(filled(s.gradients)),
      reduce_across(filled(s.optimizer / s.gradients)),
      replicas(filled(s.ranks / s.optimizer)),
      update(filled(s.optimizer / s.weights)),
      everyone(filled(s.ranks)),
      copy(filled(s.optimizer)) {
  const int64_t w = s.weights, g = s.gradients, o = s.optimizer;
  // A rank's number among the ranks of its group, where `outer` consecutive ranks are divided into groups whose members
  // are `inner` ranks apart. By rails, members that have the same place in their nodes have consecutive numbers.
  const auto place = [&](int64_t rank, int64_t inner, int64_t outer) {
    const int64_t number = rank % outer / inner;
    if (!s.has_two_hops(inner, outer)) return number;
    const int64_t in_node = s.rails_node / inner;
    return number % in_node * (outer / s.rails_node) + number / in_node;
  };
  // Each outer part number continues the inner one, so that the parts are nested.
  const auto weight_part = [&](int64_t rank) { return place(rank, 1, w); };
  const auto gradient_part = [&](int64_t rank) { return weight_part(rank) * (g / w) + place(rank, w, g); };
  const auto optimizer_part = [&](int64_t rank) { return gradient_part(rank) * (o / g) + place(rank, g, o); };
  const auto own_part = [&](int64_t rank) { return optimizer_part(rank) * (s.ranks / o) + rank / o; };
  weights = {weight_part(d), w};
  gradients = {gradient_part(d), g};
  optimizer = {optimizer_part(d), o};
  own = {own_part(d), s.ranks};
  for (int64_t rank = 0; rank < s.ranks; ++rank) {
    everyone[own_part(rank)] = rank;
    if (optimizer_part(rank) == optimizer.number) replicas[rank / o] = rank;
    if (rank / w == d / w) gather[weight_part(rank)] = rank;
    if (rank / g == d / g) reduce[gradient_part(rank)] = rank;
    if (rank / o != d / o) continue;
    copy[optimizer_part(rank)] = rank;
    if (gradient_part(rank) == gradients.number) reduce_across[optimizer_part(rank) % (o / g)] = rank;
    if (weight_part(rank) == weights.number) update[optimizer_part(rank) % (o / w)] = rank;
  }
}

Hops hops_of(const std::vector<int64_t>& members, const ShardSizes& sizes, int64_t data_coordinate) {
  const auto node_of = [&](int64_t rank) { return rank / sizes.rails_node; };
  const int64_t own_node = node_of(data_coordinate);
  const int64_t in_node = std::ranges::count(members, own_node, node_of), nodes = std::ssize(members) / in_node;
  const int64_t position = std::ranges::find(members, data_coordinate) - members.begin();
  Hops hops;
  for (int64_t i = 0; i < in_node; ++i) hops.node.push_back(members.at(i * nodes + position % nodes));
  for (int64_t j = 0; j < nodes; ++j) hops.rails.push_back(members.at(position / nodes * nodes + j));
  TERRACE_CHECK(std::ranges::count(hops.node, own_node, node_of) == in_node, "{} ranks of a node in a group of {}",
                in_node, members.size());
  return hops;
}

Group ranks_of(const std::vector<int64_t>& data_coordinates, const char* name, const Mesh& mesh, int64_t rank) {
  const std::vector<int64_t> data = mesh.group(rank, shard_axes, "data").ranks;
  std::vector<int64_t> ranks;
  for (const int64_t coordinate : data_coordinates) ranks.push_back(data.at(coordinate));
  return {name, std::move(ranks)};
}

int64_t parameter_alignment(const config::LayoutConfig& layout) {
  return config::quantizes(layout) ? config::wire_block : 32;
}

int64_t padded_size(int64_t elements, int64_t ranks, int64_t piece) {
  const int64_t multiple = ranks * piece;
  return (elements + multiple - 1) / multiple * multiple;
}

}  // namespace terrace::mesh
