// Takes the digests piece by piece, so that a finding names the parameter, and sends one number for each kind of
// replica unless they differ.
#include "terrace/train/state_check.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>

#include "terrace/base/error.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/text/plural.h"
#include "terrace/optim/digest.h"
#include "terrace/train/agreement.h"

namespace terrace::train {
namespace {

// The digests of the selected entries, in order.
template <typename Has, typename List>
std::vector<uint64_t> selected(Has has, const List& list, const std::vector<uint64_t>& digests) {
  std::vector<uint64_t> chosen;
  for (size_t i = 0; i < list.size(); ++i) {
    if (has(list[i])) chosen.push_back(digests[i]);
  }
  return chosen;
}

std::vector<uint64_t> gathered(comm::Comm& group, const std::vector<uint64_t>& own) {
  std::vector<uint64_t> all(own.size() * static_cast<size_t>(group.size()));
  group.all_gather(own.data(), all.data(), std::ssize(own), comm::Type::int64, {.what = "compare digests"}).wait();
  return all;
}

// The places in `members` whose values are not that of more than half of them, and the value of these; no value where
// none is that frequent.
struct Vote {
  bool all_equal = true, has_majority = false;
  uint64_t majority = 0;
};

Vote vote(const std::vector<uint64_t>& values) {
  std::map<uint64_t, size_t> counts;
  for (const uint64_t value : values) ++counts[value];
  const auto most =
      std::ranges::max_element(counts, {}, [](const std::pair<const uint64_t, size_t>& one) { return one.second; });
  return {.all_equal = counts.size() == 1, .has_majority = 2 * most->second > values.size(), .majority = most->first};
}

// "rank 4", "ranks 0, 2 and 4", or of many "ranks 0, 1, 2 and 13 more".
std::string ranks_text(const std::vector<int64_t>& ranks) {
  constexpr size_t most_named = 6;
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  const size_t named = ranks.size() > most_named ? 3 : ranks.size() - 1;
  return fmt::format(
      "ranks {} and {}", fmt::join(std::span(ranks).first(named), ", "),
      ranks.size() > most_named ? fmt::format("{} more", ranks.size() - named) : std::to_string(ranks.back()));
}

// "the weights of head.weight", with the number of others that a check found besides.
struct Things {
  std::string first = {};
  uint64_t others = 0;

  void add(const char* what, const std::string& name) {
    if (first.empty()) {
      first = fmt::format("the {} of {}", what, name);
    } else {
      ++others;
    }
  }
  std::string text() const {
    return others == 0 ? first : fmt::format("{} (and {} like that)", first, counted(others, "other tensor"));
  }
};

}  // namespace

std::string place_text(const comm::World& world, const mesh::Mesh& mesh) {
  std::string axes;
  for (const char* axis : {"data", "tensor", "pipeline"}) {
    if (mesh.size(axis) == 1) continue;
    axes += fmt::format("{}{} {}", axes.empty() ? "; " : ", ", axis, mesh.coordinate(world.rank(), axis));
  }
  return fmt::format("rank {} (host {}, node {}{})", world.rank(), host_name(),
                     world.rank() / mesh.topology().ranks_per_node, axes);
}

std::string findings_of_all(comm::Comm& control, const std::string& place, const std::string& own) {
  int64_t number = own.empty() ? 0 : 1;
  control.all_reduce(&number, 1, comm::Type::int64, {.what = "count findings"}).wait();
  if (number == 0) return "";
  std::vector<char> has(static_cast<size_t>(control.size()));
  const char own_has = own.empty() ? 0 : 1;
  control.all_gather(&own_has, has.data(), 1, comm::Type::uint8, {.what = "ranks with findings"}).wait();
  constexpr int64_t most_named = 8;
  std::vector<std::string> texts;
  for (int64_t member = 0; member < control.size() && std::ssize(texts) < most_named; ++member) {
    if (has[static_cast<size_t>(member)] == 0) continue;
    texts.push_back(broadcast_text(control, fmt::format("{}: {}", place, own), member, "finding"));
  }
  std::string text = fmt::format("{}", fmt::join(texts, "; "));
  if (number > most_named)
    text +=
        fmt::format("; and {} with such findings", counted(static_cast<uint64_t>(number - most_named), "more rank"));
  return text;
}

StateCheck::StateCheck(comm::World& world, models::Model& model, parallel::CutModel& cut, optim::AdamW& optimizer)
    : model_(model), cut_(cut), optimizer_(optimizer), place_(place_text(world, cut.mesh)) {}

void StateCheck::add_pieces(const char* what, const at::Tensor& tensor, const std::vector<optim::ShardPiece>& pieces,
                            int64_t segment, Held held, std::vector<Watched>& list) const {
  for (const optim::ShardPiece& piece : pieces) {
    list.push_back({.what = what,
                    .name = piece.parameter->name,
                    .tensor = tensor.narrow(0, piece.at, piece.size()),
                    .held = held,
                    .on_tensor_ranks = piece.parameter->mark.kind == ParamMark::Kind::replicated,
                    .on_two_stages = cut_.stage.is_shared(segment)});
  }
}

std::vector<StateCheck::Watched> StateCheck::whole_weights() const {
  std::vector<Watched> list;
  for (const parallel::HeldWeights& weights : cut_.sharded.held_weights()) {
    add_pieces("weights", weights.weights, weights.pieces, weights.segment, Held::weight_part, list);
  }
  return list;
}

std::vector<StateCheck::Watched> StateCheck::states() const {
  std::vector<Watched> list = publishes() ? std::vector<Watched>{} : whole_weights();
  for (const optim::AdamW::State& state : optimizer_.states()) {
    const auto add = [&](const char* what, const at::Tensor& tensor) {
      add_pieces(what, tensor, state.shard.pieces, state.shard.segment, Held::optimizer_part, list);
    };
    if (publishes()) add("weights", state.shard.value);
    if (!state.master.is_same(state.shard.value)) add("master weights", state.master);
    add("first moments", state.m);
    add("second moments", state.v);
  }
  return list;
}

std::vector<StateCheck::Watched> StateCheck::gradients() const {
  std::vector<Watched> list;
  for (const optim::Shard& shard : cut_.shards) {
    add_pieces("summed gradients", shard.gradient, shard.pieces, shard.segment, Held::optimizer_part, list);
  }
  const std::vector<uint64_t>& of_segments = cut_.sharded.gathered_digests();
  for (size_t segment = 0; segment < of_segments.size(); ++segment) {
    list.push_back({.what = "gathered weights",
                    .name = fmt::format("segment {}", segment),
                    .tensor = {},
                    .digest = of_segments[segment]});
  }
  return list;
}

std::vector<uint64_t> StateCheck::digests_of(const std::vector<Watched>& list) {
  std::vector<uint64_t> digests;
  digests.reserve(list.size());
  for (const Watched& watched : list) {
    digests.push_back(watched.tensor.defined() ? optim::digest_of(watched.tensor) : watched.digest);
  }
  return digests;
}

std::vector<StateCheck::GroupCircles> StateCheck::circles() const {
  const parallel::DataGroups& groups = cut_.groups;
  GroupCircles data{
      .group = groups.everyone.get(),
      .circles = {{.has = [](const Watched& one) { return one.held == Held::whole; }, .keys = {}},
                  {.has = [](const Watched& one) { return one.held == Held::weight_part; }, .keys = {}},
                  {.has = [](const Watched& one) { return one.held == Held::optimizer_part; }, .keys = {}}}};
  // Members are in the order of the parts that they own, which lie in optimizer parts, and these in weight parts.
  const mesh::ShardSizes& sizes = groups.place.sizes;
  for (int64_t member = 0; member < groups.everyone->size(); ++member) {
    const int64_t optimizer_part = member / (sizes.ranks / sizes.optimizer);
    data.circles[0].keys.push_back(0);
    data.circles[1].keys.push_back(optimizer_part / (sizes.optimizer / sizes.weights));
    data.circles[2].keys.push_back(optimizer_part);
  }
  const auto all_of = [](comm::Comm& group, bool (*has)(const Watched&)) {
    return GroupCircles{&group, {{has, std::vector<int64_t>(static_cast<size_t>(group.size()), 0)}}};
  };
  return {std::move(data), all_of(cut_.tensor.group(), [](const Watched& one) { return one.on_tensor_ranks; }),
          all_of(cut_.stage.sharing(), [](const Watched& one) { return one.on_two_stages; })};
}

void StateCheck::compare(const std::vector<Watched>& list, const std::vector<uint64_t>& digests,
                         std::vector<std::string>& findings) const {
  for (const auto& [group, circles] : circles()) {
    if (group->size() == 1) continue;
    std::vector<uint64_t> sums;
    for (const Circle& circle : circles) {
      uint64_t sum = 0;
      for (const uint64_t digest : selected(circle.has, list, digests)) sum = optim::followed_by(sum, digest);
      sums.push_back(sum);
    }
    const std::vector<uint64_t> all = gathered(*group, sums);
    for (size_t number = 0; number < circles.size(); ++number) {
      std::map<int64_t, std::vector<uint64_t>> by_key;
      for (size_t member = 0; member < circles[number].keys.size(); ++member) {
        by_key[circles[number].keys[member]].push_back(all[member * circles.size() + number]);
      }
      const bool all_equal = std::ranges::all_of(by_key, [](const auto& one) { return vote(one.second).all_equal; });
      if (!all_equal) compare(*group, circles[number], list, digests, findings);
    }
  }
}

// Compares the digests one by one. All members of the group call it, since all know that some differ.
void StateCheck::compare(comm::Comm& group, const Circle& circle, const std::vector<Watched>& list,
                         const std::vector<uint64_t>& digests, std::vector<std::string>& findings) const {
  std::vector<uint64_t> own = selected(circle.has, list, digests);
  std::vector<const Watched*> things;
  for (const Watched& watched : list) {
    if (circle.has(watched)) things.push_back(&watched);
  }
  // Parts may have different numbers of pieces.
  const std::vector<uint64_t> sizes = gathered(group, {own.size()});
  own.resize(std::ranges::max(sizes), 0);
  const std::vector<uint64_t> all = gathered(group, own);
  const auto self = static_cast<size_t>(group.member());
  std::vector<size_t> peers;  // those that hold the same, this rank included
  for (size_t member = 0; member < circle.keys.size(); ++member) {
    if (circle.keys[member] == circle.keys[self]) peers.push_back(member);
  }
  Things outvoted, undecided;
  std::vector<int64_t> agreeing, differing;
  const char* what = "";
  for (size_t i = 0; i < things.size(); ++i) {
    std::vector<uint64_t> values;
    for (const size_t member : peers) values.push_back(all[member * own.size() + i]);
    const Vote result = vote(values);
    if (result.all_equal || (result.has_majority && result.majority == own[i])) continue;
    Things& found = result.has_majority ? outvoted : undecided;
    std::vector<int64_t>& ranks = result.has_majority ? agreeing : differing;
    if (found.first.empty()) {
      what = things[i]->what;
      for (size_t peer = 0; peer < peers.size(); ++peer) {
        if (values[peer] != own[i]) ranks.push_back(group.group().ranks[peers[peer]]);
      }
    }
    found.add(things[i]->what, things[i]->name);
  }
  if (!outvoted.first.empty()) {
    findings.push_back(fmt::format("{} differ from those of {}, which agree", outvoted.text(), ranks_text(agreeing)));
  }
  if (!undecided.first.empty()) {
    findings.push_back(fmt::format("{} differ from those of {}, and there is no third copy{}", undecided.text(),
                                   ranks_text(differing), own_evidence(what)));
  }
}

// Each rank has the masters from which its 16-bit weights were rounded, so one of two ranks knows that it is wrong.
std::string StateCheck::own_evidence(const char* what) const {
  if (std::string_view(what) != "weights") return "";
  const at::NoGradGuard no_grad;
  bool has_masters = false;
  for (const optim::AdamW::State& state : optimizer_.states()) {
    if (state.shard.keeps_master || state.master.is_same(state.shard.value)) continue;
    has_masters = true;
    if (!state.master.to(state.shard.value.scalar_type()).equal(state.shard.value))
      return "; here they are not the rank's own master weights, rounded";
  }
  return has_masters ? "; here they are the rank's own master weights, rounded" : "";
}

std::string StateCheck::after_update() {
  std::vector<Watched> list = states();
  std::vector<uint64_t> digests = digests_of(list);
  remembered_ = digests;
  remembers_ = true;
  for (const nn::Buffer* buffer : cut_.stage.buffers()) {
    list.push_back({.what = "values", .name = "buffer " + buffer->name, .tensor = buffer->value.contiguous()});
    digests.push_back(optim::digest_of(list.back().tensor));
  }
  std::vector<std::string> findings;
  compare(list, digests, findings);
  return findings_of_all(*cut_.groups.control, place_, fmt::format("{}", fmt::join(findings, ", and ")));
}

void StateCheck::begin_step() { cut_.sharded.watch_gathered(remembers()); }

std::string StateCheck::before_update() {
  std::vector<std::string> findings;
  const std::vector<Watched> list = states();
  const std::vector<uint64_t> digests = digests_of(list);
  TERRACE_CHECK(digests.size() == remembered_.size(), "{} and {} tensors", digests.size(), remembered_.size());
  Things changed;
  for (size_t i = 0; i < list.size(); ++i) {
    if (digests[i] != remembered_[i]) changed.add(list[i].what, list[i].name);
  }
  remembers_ = false;
  if (!changed.first.empty()) {
    findings.push_back(fmt::format(
        "{} changed in its memory since the end of the step before, when nothing writes them", changed.text()));
  }
  std::vector<Watched> replicas = publishes() ? whole_weights() : std::vector<Watched>{};
  for (Watched& summed : gradients()) replicas.push_back(std::move(summed));
  compare(replicas, digests_of(replicas), findings);
  cut_.sharded.watch_gathered(false);
  return findings_of_all(*cut_.groups.control, place_, fmt::format("{}", fmt::join(findings, ", and ")));
}

}  // namespace terrace::train
