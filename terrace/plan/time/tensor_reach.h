// Predicts what it costs that groups of tensor ranks leave a node or a package: the step with smaller groups on as many
// devices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/plan/estimate.h"
#include "terrace/plan/target.h"

namespace terrace::plan {

// The largest size of which all groups stay in one unit of a tier.
struct SmallerGroups {
  int64_t tensor = 1;
  std::string tier = {};  // "node"
  // The fastest layout with it that fits the memory; its gain is negative if it is slower. Nothing if none fits.
  std::optional<Change> fastest = {};
};

struct TensorReach {
  int64_t tensor = 1;
  double step_seconds = 0, items_per_second = 0;  // of the plan
  std::string domain = {};                        // "node", or the innermost tier if the machine has no nodes
  int64_t domain_devices = 1;
  bool leaves_domain = false;  // some group has ranks in several units of the domain
  // Whether the group of rank 0 leaves it, from which times are computed; where tensor ranks do not divide a node's
  // devices it may stay inside while others do not.
  bool first_leaves_domain = false;
  std::vector<SmallerGroups> smaller = {};  // for each tier up to the domain that groups leave, the outermost first

  // "the groups of 16 tensor ranks leave the node (8 devices): ..." with the cost; "" if they stay inside.
  std::string warning() const;
};

// The devices that smaller groups leave over become data-parallel ranks and pipeline stages, divided in every way
// between the two; all other keys stay, so that the step trains on the same batch. Returns nothing with one tensor
// rank.
std::optional<TensorReach> tensor_reach(const config::Config& config, const Target& target,
                                        const Prediction& prediction);

// Whether some group of tensor ranks has ranks on several nodes, or in several units of the innermost tier if the
// machine has no nodes.
bool tensor_leaves_domain(const mesh::Mesh& mesh, const machine::Machine& machine);

// "step 10.2 s, 1.2 times as fast: --set layout.tensor=8", or that no such layout fits.
std::string text_of(const SmallerGroups& groups, const TensorReach& reach);
// A heading with a row for the plan and for each smaller size, behind the warning if there is one; "" if the groups
// leave no tier.
std::string text_of(const TensorReach& reach, const std::string& items);
Json json_of(const TensorReach& reach, const std::string& items);

}  // namespace terrace::plan
