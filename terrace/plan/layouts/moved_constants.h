// Ranks layouts again while the constants of their machine are moved, each alone, as far as predictions err: whether
// the fastest one stays the fastest, and which layout has the least to lose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/plan/estimate.h"
#include "terrace/plan/report/published_errors.h"
#include "terrace/plan/target.h"

namespace terrace::plan {

// A layout that may be chosen.
struct RankedLayout {
  Change change = {};
  // Its steps count as so many times as long in every comparison: above 1 if its tensor groups leave the node
  // (BestOptions::over_nodes_margin).
  double weight = 1;

  double weighed_seconds() const { return weight * change.prediction.step_seconds; }
};

// The factors by which rates are moved. If a kind of layout was predicted between `lowest` and `highest` of what was
// measured, a rate times 1 + lowest makes what it decides as much longer as the steps were that took longest beside
// their predictions, and one times 1 + highest as much shorter as the fastest were.
struct MoveSizes {
  std::string kind = {};  // of the fastest layout; its errors give the factors
  double slower = 1;      // at most 1
  double faster = 1;      // at least 1

  // No layout whose step is so many times as long as another's can overtake it by a single move.
  double reach() const;
};
MoveSizes move_sizes(const std::string& kind, const std::vector<PublishedErrors>& errors);

// A constant, or several of the same sort, of the target's machine, moved.
struct Move {
  std::string constant = {};  // "products", "attention", "memory", "node links", "latencies", "data through the host"
  double factor = 1;          // of a rate; latencies are divided by it
  Target target = {};         // with the moved machine

  // "node links 19% slower".
  std::string text() const;
};
// Products (attention keeps its rate), attention, the memory of devices, the links of each tier that so many devices
// use, the latencies of all tiers, and the rate of the host's memory where the program's data pass through it: each
// slower, and each faster.
std::vector<Move> moves_of(const Target& target, const MoveSizes& sizes);

// The choice among layouts of which some are tied with the fastest. A layout's regret under a move is the share by
// which its step is longer than that of the layout that is fastest then.
struct HeldChoice {
  struct Outcome {
    std::string text = {};  // of the move
    std::string constant = {};
    double factor = 1;
    std::vector<double> step_seconds = {};  // by layout
    size_t first = 0;                       // the fastest layout, by weighed seconds
    double regret = 0;                      // of the chosen layout
  };

  MoveSizes sizes = {};
  std::vector<RankedLayout> layouts = {};  // the fastest first, as predicted without a move
  int64_t tied = 1;                        // layouts that are tied with the fastest, from the first on
  // The tied layout with the least worst regret in tenths of a percent, the faster one if several have it.
  size_t chosen = 0;
  std::vector<double> worst_regrets = {};  // by layout: the most under any move and without one
  std::vector<Outcome> moves = {};         // that change the step of some layout

  // The number of moves under which the chosen layout is the fastest, or its regret rounds to 0.0%.
  int64_t stays_first() const;
};

// `layouts` are the fastest first; none may be a rival if it is farther than MoveSizes::reach() from the first. Those
// whose weighed step is at most `tie` longer than the first one's are tied.
HeldChoice held_choice(std::vector<RankedLayout> layouts, double tie, const Target& target, const MoveSizes& sizes);

// A few lines: how often the choice stays first, the move under which most is lost, and why a layout is preferred to
// the fastest.
std::string text_of(const HeldChoice& choice);
// The keys: kind, slower, faster, layouts (set, step_seconds, weight, worst_regret), tied, chosen, stays_first, and
// moves (constant, factor, step_seconds by layout, first, regret).
Json json_of(const HeldChoice& choice);

}  // namespace terrace::plan
