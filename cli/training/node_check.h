// Makes the checks of `terrace doctor` on the ranks of a launch.
#pragma once

#include "cli/training/launched_ranks.h"
#include "terrace/doctor/checks.h"
#include "terrace/doctor/node_view.h"
#include "terrace/doctor/readings.h"

namespace terrace::cli {

// doctor::this_node() with the GPUs that this build can use.
doctor::NodeView own_node(bool thorough);

// The speed that ranks reached, and the one in the machine's description.
struct MeasuredSpeed {
  doctor::Speed measured, described = {};
};

// Called by all ranks, with options whose rank is set here. The first rank has what was found, the others only as many
// findings.
doctor::Diagnosis diagnose_node(const doctor::NodeView& view, const LaunchedRanks& ranks, doctor::ReadOptions options,
                                const MeasuredSpeed& speed = {});

// Called by all ranks before a run: the first rank logs a warning for each finding. Reads parts of files and loads
// nothing.
void warn_of_node(const LaunchedRanks& ranks);

// Called before MPI is started, by one process: Cray MPICH stops there where it lacks its library for GPUs, before the
// ranks could say so together.
void warn_of_gpu_support();

}  // namespace terrace::cli
