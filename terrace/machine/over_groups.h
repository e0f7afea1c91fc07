// Describes a machine as a job finds it whose nodes are spread over several groups of a dragonfly network.
#pragma once

#include <cstdint>

#include "terrace/machine/machine.h"

namespace terrace::machine {

// The machine for a job of so many devices whose nodes are divided evenly among `groups` groups, as ranks of one group
// follow each other: units of the tier "group" have only the job's nodes, and with them these nodes' share of the links
// out of a group. As many groups as nodes: every node lies in another group than its neighbours. Throws UserError with
// every reason why the nodes cannot lie so, and the numbers of groups that are possible.
Machine over_groups(const Machine& machine, int64_t devices, int64_t groups);

}  // namespace terrace::machine
