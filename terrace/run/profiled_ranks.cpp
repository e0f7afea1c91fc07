// Puts together what the ranks tell of a step.
#include "terrace/run/profiled_ranks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "terrace/base/text/json_record.h"
#include "terrace/plan/measured/measured_step.h"
#include "terrace/run/link_probe.h"
#include "terrace/run/rank_place.h"
#include "terrace/schedule/description.h"

namespace terrace::run {
namespace {

using Kind = schedule::StepInstruction::Kind;

double total(const comm::Comm& group, double comm::Traffic::*seconds, bool receives) {
  double sum = 0;
  for (size_t kind = 0; kind < comm::num_kinds; ++kind) {
    // A receive waits for the sender's computation too.
    if (!receives && static_cast<comm::Kind>(kind) == comm::Kind::receive) continue;
    sum += group.traffic(static_cast<comm::Kind>(kind)).*seconds;
  }
  return sum;
}

double sent_bytes(const comm::Comm& group) {
  double sum = 0;
  for (size_t kind = 0; kind < comm::num_kinds; ++kind) {
    sum += static_cast<double>(group.traffic(static_cast<comm::Kind>(kind)).bytes);
  }
  return sum;
}

// The waits for tensors of each stage, by the rank that sent them.
std::vector<observe::StageWait> stage_waits(train::Trainer& trainer, const OwnStep& own) {
  parallel::Stage& stage = trainer.cut().stage;
  const std::vector<schedule::AdjacentStages> chunks = schedule::neighbours(stage.placement(), stage.number());
  std::map<int64_t, double> waits;
  for (const train::TimedInstruction& one : own.instructions) {
    if (one.waited_seconds <= 0 || one.instruction.chunk < 0) continue;
    const schedule::AdjacentStages& beside = chunks.at(static_cast<size_t>(one.instruction.chunk));
    const bool forward = one.instruction.kind == Kind::forward || one.instruction.kind == Kind::loss;
    const int64_t from = forward ? beside.before : beside.after;
    if (from >= 0) waits[stage.group().group().ranks[static_cast<size_t>(from)]] += one.waited_seconds;
  }
  std::vector<observe::StageWait> list;
  for (const auto& [rank, seconds] : waits) list.push_back({.rank = rank, .seconds = seconds});
  return list;
}

// The seconds of each instruction of the list, as means over micro-batches: of a transfer those of the group's calls,
// which the caller gives by the movement's group and hop.
std::vector<plan::MeasuredInstruction> measured_list(const OwnStep& own, const std::map<std::string, double>& calls) {
  std::map<std::tuple<Kind, int64_t, schedule::Movement>, std::pair<double, int64_t>> sums;
  for (const auto& [instruction, waited, seconds] : own.instructions) {
    const bool moves = instruction.kind == Kind::begin_movement;
    if (schedule::is_send(instruction.kind) || schedule::is_receive(instruction.kind)) continue;
    if (instruction.kind == Kind::end_movement) continue;
    auto& [sum, count] = sums[{instruction.kind, instruction.segment,
                               moves ? instruction.movement : schedule::Movement::gather_weights}];
    const auto of_call = calls.find(schedule::group_of(instruction.movement, instruction.hop));
    sum += !moves ? seconds : of_call != calls.end() ? of_call->second : 0;
    ++count;
  }
  std::vector<plan::MeasuredInstruction> list;
  for (const auto& [key, sum] : sums) {
    const auto& [kind, segment, movement] = key;
    list.push_back({.kind = kind,
                    .segment = segment,
                    .movement = movement,
                    .seconds = sum.first / static_cast<double>(sum.second)});
  }
  return list;
}

// As JSON: an array of kind, segment, movement and seconds for each.
std::string text_of(const std::vector<plan::MeasuredInstruction>& list) {
  Json json = Json::array();
  for (const plan::MeasuredInstruction& one : list) {
    json.push_back({static_cast<int>(one.kind), one.segment, static_cast<int>(one.movement), one.seconds});
  }
  return json.dump();
}

std::vector<plan::MeasuredInstruction> measured_list_of(const std::string& text) {
  std::vector<plan::MeasuredInstruction> list;
  for (const Json& one : Json::parse(text)) {
    list.push_back({.kind = static_cast<Kind>(one.at(0).get<int>()),
                    .segment = one.at(1).get<int64_t>(),
                    .movement = static_cast<schedule::Movement>(one.at(2).get<int>()),
                    .seconds = one.at(3).get<double>()});
  }
  return list;
}

// The seconds of one call of each group: for the member that comes last, the shortest total over the members, divided
// among the movements of the list.
std::map<std::string, double> call_seconds(const std::vector<observe::RankProfile>& ranks, const OwnStep& own) {
  std::map<std::string, double> shortest;
  for (const observe::RankProfile& rank : ranks) {
    for (const observe::GroupWait& one : rank.groups) {
      const auto [found, is_new] = shortest.emplace(one.group, one.moving_seconds);
      found->second = std::min(found->second, one.moving_seconds);
    }
  }
  std::map<std::string, int64_t> calls;
  for (const train::TimedInstruction& one : own.instructions) {
    if (one.instruction.kind == Kind::begin_movement) {
      ++calls[schedule::group_of(one.instruction.movement, one.instruction.hop)];
    }
  }
  std::map<std::string, double> seconds;
  for (const auto& [group, count] : calls) {
    const auto found = shortest.find(group);
    if (found != shortest.end()) seconds[group] = found->second / static_cast<double>(count);
  }
  return seconds;
}

// The seconds of a step without the waits inside of its instructions, which get names of their own: those of tensor
// ranks in computations, in proportion to these, and those of all ranks for each other before the update.
std::vector<observe::NamedFigure> without_inner_waits(std::vector<observe::NamedFigure> seconds,
                                                      const std::vector<observe::GroupWait>& groups) {
  const auto move = [&](const std::vector<std::string>& from, const std::string& name, double waited) {
    double all = 0;
    for (const std::string& kind : from) all += observe::figure(seconds, kind);
    if (all <= 0 || waited <= 0) return;
    const double share = std::min(1.0, waited / all);
    for (const std::string& kind : from) {
      const double part = observe::figure(seconds, kind);
      if (part > 0) observe::add(seconds, kind, -share * part);
    }
    observe::add(seconds, name, share * all);
  };
  double tensor = 0, norm = 0;
  for (const observe::GroupWait& one : groups) {
    if (one.group == "tensor") tensor += one.waited_seconds;
    if (one.group == "data" || one.group == "control" || one.group == "model_parallel") norm += one.waited_seconds;
  }
  move({"forward", "loss", "backward", "input gradient", "weight gradient"}, "waits for tensor", tensor);
  move({"update"}, "waits for the norm", norm);
  return seconds;
}

void add_links(train::Trainer& trainer, observe::ProfiledRanks& profiled) {
  LinkProbe probe(groups_with_data(trainer.cut()), *trainer.cut().groups.control);
  const ProbedLinks links = probe.measure_all();
  if (!links.slowest) return;
  profiled.slowest_link = {.from = links.slowest->from,
                           .to = links.slowest->to,
                           .bytes = static_cast<double>(probe_bytes),
                           .seconds = links.slowest->seconds};
  profiled.usual_link_seconds = links.usual_seconds;
}

}  // namespace

std::vector<observe::GroupWait> calls_of(parallel::CutModel& cut) {
  std::vector<observe::GroupWait> all;
  for (const comm::Comm* group : cut.groups_of_step()) {
    if (group->size() < 2) continue;
    all.push_back({.group = group->group().name,
                   .first = std::ranges::min(group->group().ranks),
                   .members = group->size(),
                   .waited_seconds = total(*group, &comm::Traffic::exposed_seconds, false),
                   .moving_seconds = total(*group, &comm::Traffic::moving_seconds, false),
                   .bytes = sent_bytes(*group)});
  }
  return all;
}

OwnStep own_step(train::Trainer& trainer, std::vector<train::TimedInstruction> instructions,
                 const std::vector<observe::GroupWait>& before) {
  OwnStep own{.instructions = std::move(instructions), .groups = calls_of(trainer.cut())};
  for (size_t i = 0; i < own.groups.size(); ++i) {
    own.groups[i].waited_seconds -= before[i].waited_seconds;
    own.groups[i].moving_seconds -= before[i].moving_seconds;
    own.groups[i].bytes -= before[i].bytes;
  }
  for (const train::TimedInstruction& one : own.instructions) {
    own.micro_batches = std::max(own.micro_batches, one.instruction.micro_batch + 1);
  }
  return own;
}

std::vector<std::string> gathered_texts(comm::Comm& all, const std::string& own) {
  const auto members = static_cast<size_t>(all.size());
  std::vector<int64_t> sizes(members);
  const auto own_size = std::ssize(own);
  all.all_gather(&own_size, sizes.data(), 1, comm::Type::int64, {.what = "profiles"}).wait();
  const int64_t largest = std::ranges::max(sizes);
  std::string padded = own;
  padded.resize(static_cast<size_t>(largest));
  std::string texts(members * static_cast<size_t>(largest), '\0');
  all.all_gather(padded.data(), texts.data(), largest, comm::Type::uint8, {.what = "profiles"}).wait();
  std::vector<std::string> list;
  for (size_t member = 0; member < members; ++member) {
    list.push_back(texts.substr(member * static_cast<size_t>(largest), static_cast<size_t>(sizes[member])));
  }
  return list;
}

std::optional<observe::ProfiledRanks> profiled_ranks(train::Trainer& trainer, const observe::StepRecord& record,
                                                     const OwnStep& own) {
  const observe::StageRecord& stage = record.stages.front();
  const observe::RankProfile own_profile{.rank = trainer.rank(),
                                         .stage = stage.stage,
                                         .place = place_of(trainer.device()),
                                         .step_seconds = record.step_seconds,
                                         .seconds = without_inner_waits(stage.seconds, own.groups),
                                         .memory_bytes = stage.memory_bytes,
                                         .groups = own.groups,
                                         .stages = stage_waits(trainer, own)};
  observe::ProfiledRanks profiled{.step = record.step};
  for (const std::string& text : gathered_texts(*trainer.cut().groups.control, observe::text_of(own_profile))) {
    profiled.ranks.push_back(observe::rank_profile_of(text));
  }
  if (trainer.device().is_cpu()) add_links(trainer, profiled);
  plan::MeasuredStages measured;
  for (const int64_t rank : trainer.mesh().group(0, "pipeline").ranks) {
    const bool is_own = rank == trainer.rank();
    const std::string text = trainer.of_rank(
        rank, is_own ? text_of(measured_list(own, call_seconds(profiled.ranks, own))) : "", "profile of a stage");
    measured.push_back(measured_list_of(text));
  }
  if (trainer.rank() != 0) return std::nullopt;
  const config::Config& config = trainer.config();
  const mesh::Mesh& mesh = trainer.mesh();
  const plan::StepAnalysis analysis = plan::analysed(config, schedule::unit_table(config), mesh.size(),
                                                     mesh.topology().ranks_per_node, own.micro_batches, measured);
  for (const plan::PathShare& share : analysis.path.shares) {
    profiled.critical_path.push_back(plan::text_of(share));
  }
  for (const plan::NextRun& next : analysis.next) profiled.next_run.push_back(plan::text_of(next));
  return profiled;
}

}  // namespace terrace::run
