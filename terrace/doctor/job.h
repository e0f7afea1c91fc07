// Functions by which checks ask about the readings of all ranks and put what several ranks have in one finding.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "terrace/doctor/finding.h"
#include "terrace/doctor/readings.h"

namespace terrace::doctor {

// The readings of all ranks, or of all ranks of one node, by rank; at least one.
using JobReadings = std::vector<Readings>;

// "ranks 8-15", of those at these places of the job.
std::string ranks_at(const JobReadings& job, std::vector<int64_t> places);

bool has_gpus(const JobReadings& job);
bool has_amd_gpus(const JobReadings& job);
// Whether a node has an interface of Slingshot, which the kernel calls hsn0, hsn1 and so on.
bool has_slingshot(const JobReadings& job);
bool has_infiniband(const JobReadings& job);
bool is_slingshot(const std::string& interface);

// The number of nodes: those of the ranks, or more where the step of Slurm, or the job outside of a step, has more.
int64_t nodes_of(const JobReadings& job);
// Each rank's number among those of its node.
std::vector<int64_t> local_ranks(const JobReadings& job);
// The bus address of each rank's GPU, chosen as the program does: the GPUs that the rank can use, in turn; "" where
// there is none or none is known.
std::vector<std::string> used_gpus(const JobReadings& job);
// The GPU with this address on the rank's node; null where there is none.
const Gpu* gpu_of(const Readings& rank, const std::string& address);

// The value of a variable of the rank, "" where it is not set.
std::string variable_of(const Readings& rank, const std::string& name);

// Returns what `problem` finds on each rank, in the order of the ranks.
std::vector<std::string> found_on(const JobReadings& job, const std::function<std::string(const Readings&)>& problem);
// Makes an outcome of the text that the check found on each rank, "" where nothing: one with a finding that names the
// ranks and their nodes, or with none. Ranks with the same text are named together; at most four texts are shown.
CheckOutcome outcome_of(const JobReadings& job, const std::vector<std::string>& found, Finding finding);
CheckOutcome does_not_apply(std::string reason);

}  // namespace terrace::doctor
