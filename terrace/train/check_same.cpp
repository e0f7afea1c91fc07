// Compares the facts that the ranks of a launch were given: first their digests, and the texts only if digests differ.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "terrace/mesh/rank_list.h"
#include "terrace/train/agreement.h"

namespace terrace::train {
namespace {

// Nobody would read a message about more variants.
constexpr size_t most_variants = 8;

// Ranks that were given the same facts.
struct Variant {
  std::vector<int64_t> ranks;
  std::map<std::string, std::string> facts = {};
};

// Gathers the different facts, in the order of their first ranks. Members without a text are left out.
std::vector<Variant> variants_of(comm::Comm& all, const std::optional<std::string>& text) {
  const size_t length = checksum({}).size();
  const std::string none(length, ' ');
  const std::string own = text ? checksum(std::as_bytes(std::span(*text))) : none;
  std::string digests(length * static_cast<size_t>(all.size()), ' ');
  all.all_gather(own.data(), digests.data(), static_cast<int64_t>(length), comm::Type::uint8, {.what = "same start"})
      .wait();
  std::vector<Variant> variants;
  std::unordered_map<std::string, size_t> number_of;  // there may be as many variants as members
  for (int64_t member = 0; member < all.size(); ++member) {
    const std::string digest = digests.substr(static_cast<size_t>(member) * length, length);
    if (digest == none) continue;
    const auto [found, is_new] = number_of.emplace(digest, variants.size());
    if (is_new) variants.push_back({.ranks = {}});
    variants[found->second].ranks.push_back(all.group().ranks[static_cast<size_t>(member)]);
  }
  return variants;
}

// "NAME is A on rank 0, B on ranks 1 and 2", or "" if all variants have the same value.
std::string difference(const std::string& name, const std::vector<Variant>& variants) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> values;
  for (const Variant& variant : variants) {
    const auto fact = variant.facts.find(name);
    const std::string value = fact == variant.facts.end() ? "not there" : fact->second;
    auto found = std::ranges::find(values, value, &std::pair<std::string, std::vector<int64_t>>::first);
    if (found == values.end()) found = values.insert(found, {value, {}});
    found->second.insert(found->second.end(), variant.ranks.begin(), variant.ranks.end());
  }
  if (values.size() == 1) return "";
  std::vector<std::string> parts;
  for (auto& [value, ranks] : values) {
    std::ranges::sort(ranks);
    parts.push_back(fmt::format("{} on {}", value, mesh::rank_list(ranks)));
  }
  return fmt::format("\n  {} is {}", name, fmt::join(parts, ", "));
}

void compare_facts(comm::Comm& all, const std::optional<StartFacts>& facts) {
  std::optional<std::string> own;
  if (facts) own = Json(*facts).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::vector<Variant> variants = variants_of(all, own);
  if (variants.size() <= 1) return;
  const size_t num_variants = variants.size();
  variants.resize(std::min(num_variants, most_variants));
  std::vector<std::string> names;
  for (Variant& variant : variants) {
    const auto member = std::ranges::find(all.group().ranks, variant.ranks.front()) - all.group().ranks.begin();
    for (const auto& [name, value] :
         Json::parse(broadcast_text(all, own.value_or(""), member, "same start")).get<StartFacts>()) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      variant.facts[name] = value;
    }
  }
  if (all.member() != 0) throw Refusal("");
  std::string differences;
  for (const std::string& name : names) differences += difference(name, variants);
  if (num_variants > variants.size()) {
    differences += fmt::format("\n  and {} more ways to differ on other ranks", num_variants - variants.size());
  }
  throw Refusal(
      "the ranks of this run were not started with the same settings, files and program, so nothing is trained:" +
      differences +
      "\nStart all ranks with one configuration and one command line, and give every machine the same files");
}

// Device and number of the working folder.
using Folder = std::array<uint64_t, 2>;

Folder working_folder() {
  struct stat status {};
  if (::stat(".", &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

// Whether no rank before this one on its node has the same working folder, and so the same files by the same names.
bool reads_for_node(comm::Comm& all, int64_t ranks_per_node) {
  const Folder own = working_folder();
  std::vector<Folder> folders(static_cast<size_t>(all.size()));
  all.all_gather(own.data(), folders.data(), std::ssize(own), comm::Type::int64, {.what = "working folders"}).wait();
  const auto first = folders.begin() + all.member() / ranks_per_node * ranks_per_node;
  return std::find(first, folders.begin() + all.member(), own) == folders.begin() + all.member();
}

}  // namespace

void check_same(comm::Comm& all, const StartFacts& facts) { compare_facts(all, facts); }

void check_same_files(comm::Comm& all, int64_t ranks_per_node, const std::function<StartFacts()>& facts) {
  compare_facts(all, reads_for_node(all, ranks_per_node) ? std::optional(facts()) : std::nullopt);
}

}  // namespace terrace::train
