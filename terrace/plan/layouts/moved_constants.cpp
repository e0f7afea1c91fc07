// Moves constants, predicts the layouts with each, and compares regrets.
#include "terrace/plan/layouts/moved_constants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "terrace/base/system/on_all_cores.h"
#include "terrace/base/text/plural.h"

namespace terrace::plan {
namespace {

using machine::Machine;

// Shares below it are 0.0% in figures.
constexpr double no_regret = 0.0005;

// Multiplies a constant of the machine, given as a rate.
struct Constant {
  std::string name;
  std::function<void(Machine&, double)> multiply;
};

void multiply_products(Machine& machine, double factor) {
  machine::Device& device = machine.device;
  // Attention's rate is a share of that of products.
  device.attention /= factor;
  device.fp8.achievable *= factor;
  device.fp8.achievable_together *= factor;
  for (machine::ComputeRate& rate : device.products) {
    rate.achievable *= factor;
    rate.achievable_together *= factor;
    rate.attention /= factor;
  }
}

void multiply_attention(Machine& machine, double factor) {
  machine.device.attention *= factor;
  for (machine::ComputeRate& rate : machine.device.products) rate.attention *= factor;
}

void multiply_memory(Machine& machine, double factor) {
  machine::Device& device = machine.device;
  for (double* rate : {&device.memory_bandwidth, &device.encode, &device.encode_at_random, &device.decode}) {
    *rate *= factor;
  }
  for (machine::ComputeRate& rate : device.products) rate.passes *= factor;
}

std::vector<Constant> constants_of(const Target& target) {
  std::vector<Constant> list = {
      {"products", multiply_products}, {"attention", multiply_attention}, {"memory", multiply_memory}};
  int64_t inside = 1;
  for (size_t i = 0; i < target.machine.tiers.size() && inside < target.devices; ++i) {
    const machine::Tier& tier = target.machine.tiers[i];
    list.push_back(
        {tier.name + " links", [i](Machine& machine, double factor) { machine.tiers[i].link_bandwidth *= factor; }});
    inside = tier.devices;
  }
  list.push_back({"latencies", [](Machine& machine, double factor) {
                    for (machine::Tier& tier : machine.tiers) tier.latency_seconds /= factor;
                  }});
  if (target.software.host_staging != machine::HostStaging::none) {
    list.push_back(
        {"data through the host", [](Machine& machine, double factor) { machine.host.staging_bandwidth *= factor; }});
  }
  return list;
}

size_t fastest_of(const std::vector<RankedLayout>& layouts, const std::vector<double>& seconds) {
  size_t first = 0;
  for (size_t i = 1; i < layouts.size(); ++i) {
    if (layouts[i].weight * seconds[i] < layouts[first].weight * seconds[first]) first = i;
  }
  return first;
}

double regret_of(const HeldChoice& choice, const HeldChoice::Outcome& move, size_t layout) {
  return choice.layouts[layout].weight * move.step_seconds[layout] /
             (choice.layouts[move.first].weight * move.step_seconds[move.first]) -
         1;
}

// The steps of every layout under every move, by move.
std::vector<std::vector<double>> moved_steps(const std::vector<RankedLayout>& layouts, const Target& target,
                                             const std::vector<Move>& moves) {
  // The parts of a run that do not depend on the machine's rates.
  std::vector<PlannedRun> runs;
  for (const RankedLayout& one : layouts) {
    runs.emplace_back(divided(one.change.config, target.software), target.devices, target.ranks_per_node());
  }
  std::vector<std::vector<double>> seconds(moves.size(), std::vector<double>(layouts.size()));
  on_all_cores(moves.size() * layouts.size(), [&](size_t item) {
    const size_t move = item / layouts.size(), layout = item % layouts.size();
    const Target& moved = moves[move].target;
    seconds[move][layout] = predict(on_target(runs[layout], moved), moved).step_seconds;
  });
  return seconds;
}

std::string percent_of(double share) {
  if (share < no_regret) return "less than 0.1%";
  return fmt::format("{:.{}f}%", 100 * share, share < 0.0995 ? 1 : 0);
}

}  // namespace

double MoveSizes::reach() const { return std::max(1 / slower, faster); }

MoveSizes move_sizes(const std::string& kind, const std::vector<PublishedErrors>& errors) {
  const PublishedErrors* found = find_kind(kind, errors);
  if (found == nullptr) return {.kind = kind};
  return {.kind = kind, .slower = std::min(1.0, 1 + found->lowest), .faster = std::max(1.0, 1 + found->highest)};
}

std::string Move::text() const {
  const bool slower = factor < 1;
  if (constant == "latencies") {
    return fmt::format("{} {:.0f}% {}", constant, 100 * std::abs(1 / factor - 1), slower ? "longer" : "shorter");
  }
  return fmt::format("{} {:.0f}% {}", constant, 100 * std::abs(factor - 1), slower ? "slower" : "faster");
}

std::vector<Move> moves_of(const Target& target, const MoveSizes& sizes) {
  std::vector<Move> moves;
  for (const Constant& constant : constants_of(target)) {
    for (const double factor : {sizes.slower, sizes.faster}) {
      if (factor == 1) continue;
      moves.push_back({constant.name, factor, target});
      constant.multiply(moves.back().target.machine, factor);
    }
  }
  return moves;
}

int64_t HeldChoice::stays_first() const {
  return std::ranges::count_if(moves, [](const Outcome& move) { return move.regret < no_regret; });
}

HeldChoice held_choice(std::vector<RankedLayout> layouts, double tie, const Target& target, const MoveSizes& sizes) {
  HeldChoice choice{.sizes = sizes, .layouts = std::move(layouts)};
  std::vector<double> unmoved;
  for (const RankedLayout& one : choice.layouts) unmoved.push_back(one.change.prediction.step_seconds);
  const double fastest = choice.layouts.front().weighed_seconds();
  for (const RankedLayout& one : choice.layouts) {
    choice.worst_regrets.push_back(one.weighed_seconds() / fastest - 1);
  }
  choice.tied = std::ranges::count_if(choice.worst_regrets, [&](double regret) { return regret <= tie; });
  // A layout without rivals stays the fastest.
  const std::vector<Move> moves = choice.layouts.size() > 1 ? moves_of(target, sizes) : std::vector<Move>();
  const std::vector<std::vector<double>> seconds = moved_steps(choice.layouts, target, moves);
  for (size_t i = 0; i < moves.size(); ++i) {
    if (seconds[i] == unmoved) continue;
    HeldChoice::Outcome outcome{.text = moves[i].text(),
                                .constant = moves[i].constant,
                                .factor = moves[i].factor,
                                .step_seconds = seconds[i],
                                .first = fastest_of(choice.layouts, seconds[i])};
    for (size_t layout = 0; layout < choice.layouts.size(); ++layout) {
      choice.worst_regrets[layout] = std::max(choice.worst_regrets[layout], regret_of(choice, outcome, layout));
    }
    choice.moves.push_back(std::move(outcome));
  }
  const auto first = choice.worst_regrets.begin();
  const auto in_tenths_of_percent = [](double regret) { return std::lround(1000 * regret); };
  choice.chosen =
      static_cast<size_t>(std::ranges::min_element(first, first + choice.tied, {}, in_tenths_of_percent) - first);
  for (HeldChoice::Outcome& move : choice.moves) move.regret = regret_of(choice, move, choice.chosen);
  return choice;
}

std::string text_of(const HeldChoice& choice) {
  const MoveSizes& sizes = choice.sizes;
  if (choice.layouts.size() == 1 && sizes.reach() > 1) {
    return fmt::format(
        "no layout of other sizes overtakes the first if one constant is {:.0f}% slower or {:.0f}% faster, as "
        "published "
        "predictions erred ({})\n",
        100 * (1 - sizes.slower), 100 * (sizes.faster - 1), sizes.kind);
  }
  if (choice.moves.empty()) return "";
  std::string text = fmt::format(
      "moving one constant at a time, {:.0f}% slower or {:.0f}% faster as published predictions erred ({}), the first "
      "of "
      "{} stays first in {} of {} moves",
      100 * (1 - sizes.slower), 100 * (sizes.faster - 1), sizes.kind, counted(choice.layouts.size(), "layout"),
      choice.stays_first(), choice.moves.size());
  const auto worst = std::ranges::max_element(choice.moves, {}, &HeldChoice::Outcome::regret);
  if (worst->regret >= no_regret) {
    text += fmt::format("; with {} this one leads by {}:\n    {}", worst->text, percent_of(worst->regret),
                        fmt::join(choice.layouts[worst->first].change.settings, " "));
  }
  text += "\n";
  if (choice.chosen == 0) return text;
  const RankedLayout& fastest = choice.layouts.front();
  return text + fmt::format(
                    "it is preferred among {} that are tied, since no move puts it more than {} behind the layout that "
                    "leads then; this one is predicted to be {} faster, and falls up to {} behind:\n    {}\n",
                    choice.tied, percent_of(choice.worst_regrets[choice.chosen]),
                    percent_of(choice.layouts[choice.chosen].weighed_seconds() / fastest.weighed_seconds() - 1),
                    percent_of(choice.worst_regrets.front()), fmt::join(fastest.change.settings, " "));
}

Json json_of(const HeldChoice& choice) {
  Json layouts = Json::array(), moves = Json::array();
  for (size_t i = 0; i < choice.layouts.size(); ++i) {
    const RankedLayout& one = choice.layouts[i];
    layouts.push_back({{"set", one.change.settings},
                       {"step_seconds", one.change.prediction.step_seconds},
                       {"weight", one.weight},
                       {"worst_regret", choice.worst_regrets[i]}});
  }
  for (const HeldChoice::Outcome& move : choice.moves) {
    moves.push_back({{"constant", move.constant},
                     {"factor", move.factor},
                     {"step_seconds", move.step_seconds},
                     {"first", move.first},
                     {"regret", move.regret}});
  }
  return {{"kind", choice.sizes.kind},
          {"slower", choice.sizes.slower},
          {"faster", choice.sizes.faster},
          {"layouts", layouts},
          {"tied", choice.tied},
          {"chosen", choice.chosen},
          {"stays_first", choice.stays_first()},
          {"moves", moves}};
}

}  // namespace terrace::plan
