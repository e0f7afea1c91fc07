// Sends readings as texts of one length, and findings as JSON.
#include "terrace/doctor/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/mesh/group.h"
#include "terrace/mesh/rank_list.h"

namespace terrace::doctor {
namespace {

constexpr size_t digits = 16;  // of a checksum

// The message of a rank to all others.
struct Word {
  uint64_t found = 0;                   // bit i: its node has a finding of checks()[i]; 0 but on the first of a node
  std::array<char, digits> files = {};  // a checksum of Readings::files
};

std::array<char, digits> checksum_of(const std::map<std::string, std::string>& files) {
  std::string text;
  for (const auto& [name, digest] : files) text += fmt::format("{}\n{}\n", name, digest);
  std::array<char, digits> sum = {};
  std::ranges::copy(checksum(std::as_bytes(std::span(text))), sum.begin());
  return sum;
}

// Sends a text from one member to all.
std::string broadcast(comm::Comm& all, std::string text, int64_t from) {
  auto size = static_cast<int64_t>(text.size());
  all.broadcast(&size, 1, comm::Type::int64, from, {.what = "size of a finding"}).wait();
  text.resize(static_cast<size_t>(size));
  all.broadcast(text.data(), size, comm::Type::uint8, from, {.what = "finding"}).wait();
  return text;
}

// Ranks whose programs or libraries are others than those of the first rank.
std::optional<Finding> found_versions(const std::vector<Word>& words, bool has_disk) {
  std::vector<int64_t> others;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank].files != words[0].files) others.push_back(static_cast<int64_t>(rank));
  }
  if (others.empty()) return std::nullopt;
  Finding finding = other_versions(has_disk);
  finding.check = "versions";
  finding.found = fmt::format(
      "{} {} programs or libraries other than those of rank 0; terrace doctor, started with srun or mpirun as this run "
      "was, says which",
      mesh::rank_list(others), plural(others.size(), "has", "have"));
  return finding;
}

}  // namespace

Diagnosis diagnose_together(comm::Comm& all, const Readings& own) {
  const std::string text = text_of(own);
  const auto size = static_cast<int64_t>(text.size());
  std::vector<int64_t> sizes(static_cast<size_t>(all.size()));
  all.all_gather(&size, sizes.data(), 1, comm::Type::int64, {.what = "sizes of readings"}).wait();
  const auto longest = static_cast<size_t>(std::ranges::max(sizes));
  std::string padded = text;
  padded.resize(longest);
  std::string texts(longest * sizes.size(), ' ');
  all.all_gather(padded.data(), texts.data(), static_cast<int64_t>(longest), comm::Type::uint8, {.what = "readings"})
      .wait();
  Diagnosis diagnosis;
  if (all.member() == 0) {
    JobReadings job;
    for (size_t i = 0; i < sizes.size(); ++i) {
      job.push_back(readings_of(texts.substr(i * longest, static_cast<size_t>(sizes[i]))));
    }
    diagnosis = diagnose(job);
  }
  auto findings = static_cast<int64_t>(diagnosis.findings.size());
  all.broadcast(&findings, 1, comm::Type::int64, 0, {.what = "number of findings"}).wait();
  diagnosis.findings.resize(static_cast<size_t>(findings));
  return diagnosis;
}

Diagnosis diagnose_by_node(comm::World& world, int64_t ranks_per_node, Readings own) {
  const auto all = world.connect(mesh::all_ranks("doctor", world.size()));
  if (ranks_per_node == world.size()) return diagnose_together(*all, own);
  own.nodes = world.size() / ranks_per_node;
  const mesh::Group node =
      mesh::spaced_ranks("doctor of a node", world.rank() - world.rank() % ranks_per_node, ranks_per_node, 1);
  const std::vector<Finding> of_node = diagnose_together(*world.connect(node), own).findings;
  // Other ranks of the node have findings without text.
  const auto own_finding = [&](size_t number) {
    return std::ranges::find(of_node, checks()[number].name, &Finding::check);
  };
  Word word{.files = checksum_of(own.files)};
  for (size_t number = 0; number < checks().size(); ++number) {
    if (own_finding(number) != of_node.end()) word.found |= uint64_t{1} << number;
  }
  std::vector<Word> words(static_cast<size_t>(world.size()));
  all->all_gather(&word, words.data(), sizeof word, comm::Type::uint8, {.what = "what nodes have"}).wait();
  Diagnosis diagnosis{.ranks = world.size(), .nodes = own.nodes, .nodes_read = own.nodes};
  for (size_t number = 0; number < checks().size(); ++number) {
    const auto has = [&](const Word& one) { return (one.found >> number & 1U) != 0; };
    const auto from = std::ranges::find_if(words, has);
    if (from == words.end()) continue;
    std::string text;
    const int64_t rank = from - words.begin();
    if (rank == world.rank()) text = json_of(*own_finding(number)).dump();
    Finding finding = finding_of(Json::parse(broadcast(*all, text, rank)));
    if (const auto more = static_cast<size_t>(std::ranges::count_if(words, has) - 1); more > 0) {
      finding.found += fmt::format("; and {} more", counted(more, "node"));
    }
    diagnosis.findings.push_back(std::move(finding));
  }
  const bool is_known = std::ranges::find(diagnosis.findings, "versions", &Finding::check) != diagnosis.findings.end();
  if (const auto others = found_versions(words, !own.node_disk.path.empty()); others && !is_known)
    diagnosis.findings.push_back(*others);
  return diagnosis;
}

}  // namespace terrace::doctor
