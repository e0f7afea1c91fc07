// Computes the numbers of parts and the members of groups.
#include "terrace/mesh/shards.h"

#include <algorithm>
#include <string>

#include "terrace/base/error.h"
#include "terrace/config/shard_groups.h"
#include "terrace/config/wire_type.h"

namespace terrace::mesh {
namespace {

using config::ShardGroup;
using Word = ShardGroup::Word;

// Data-parallel ranks within `ranks` neighbouring ranks of the world.
int64_t data_ranks_within(int64_t ranks, const Mesh& mesh) {
  const std::vector<int64_t> data = mesh.group(0, "data").ranks;
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
      return mesh.size("data");
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

std::vector<int64_t> filled(int64_t size) { return std::vector<int64_t>(static_cast<size_t>(size)); }

}  // namespace

ShardSizes shard_sizes(const config::LayoutConfig& layout, const Mesh& mesh) {
  const config::ShardGroups groups = config::shard_groups(layout);
  const ShardSizes sizes{.weights = size_of(groups.weights, mesh),
                         .gradients = size_of(groups.gradients, mesh),
                         .optimizer = size_of(groups.optimizer, mesh),
                         .ranks = mesh.size("data")};
  const std::string problems =
      too_large("weights", sizes.weights, "gradients, which are cut over", sizes.gradients) +
      too_large("gradients", sizes.gradients, "optimizer states, which are cut over", sizes.optimizer) +
      too_large("optimizer states", sizes.optimizer, "the data-parallel ranks, of which there are", sizes.ranks);
  if (problems.empty()) return sizes;
  throw UserError("[layout] cuts weights, gradients and optimizer states over groups that must lie in each other:" +
                  problems);
}

ShardPlace::ShardPlace(const ShardSizes& s, int64_t d)
    : sizes(s),
      gather(filled(s.weights)),
      reduce(filled(s.gradients)),
      reduce_across(filled(s.optimizer / s.gradients)),
      replicas(filled(s.ranks / s.optimizer)),
      update(filled(s.optimizer / s.weights)),
      everyone(filled(s.ranks)) {
  const int64_t w = s.weights, g = s.gradients, o = s.optimizer;
  // Each outer part number continues the inner one, so that the parts are nested.
  const auto weight_part = [&](int64_t rank) { return rank % w; };
  const auto gradient_part = [&](int64_t rank) { return weight_part(rank) * (g / w) + rank % g / w; };
  const auto optimizer_part = [&](int64_t rank) { return gradient_part(rank) * (o / g) + rank % o / g; };
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
    if (gradient_part(rank) == gradients.number) reduce_across[optimizer_part(rank) % (o / g)] = rank;
    if (weight_part(rank) == weights.number) update[optimizer_part(rank) % (o / w)] = rank;
  }
}

Group ranks_of(const std::vector<int64_t>& data_coordinates, const char* name, const Mesh& mesh, int64_t rank) {
  const std::vector<int64_t> data = mesh.group(rank, "data").ranks;
  Group group{.name = name, .ranks = {}};
  for (const int64_t coordinate : data_coordinates) group.ranks.push_back(data.at(coordinate));
  return group;
}

int64_t parameter_alignment(const config::LayoutConfig& layout) {
  return config::quantizes(layout) ? config::wire_block : 32;
}

int64_t padded_size(int64_t elements, int64_t ranks, int64_t piece) {
  const int64_t multiple = ranks * piece;
  return (elements + multiple - 1) / multiple * multiple;
}

}  // namespace terrace::mesh
