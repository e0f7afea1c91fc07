// Where a rank computes, for people.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "terrace/parallel/cut_model.h"

namespace terrace::run {

// "node a, GPU 2", or the cores on which the calling thread may run: "node a, cores 0-7".
std::string place_of(const at::Device& device);

// The rank's groups whose members move data in a step, each set of ranks once.
std::vector<comm::Comm*> groups_with_data(parallel::CutModel& cut);

}  // namespace terrace::run
