// Compares the layout of a checkpoint with that of the run that continues from it.
#pragma once

#include <cstdint>
#include <string>

#include "terrace/config/config.h"

namespace terrace::train {

// The keys of [layout] by which sums are taken in another order or numbers are rounded differently than in the saved
// run, such as 'layout.tensor 2 -> 1'; "" if the layouts give the same bits. Both runs have `ranks` ranks, of which
// `here` share a machine: another number of ranks is named by kernel_differences().
std::string layout_difference(const config::Config& saved, const config::Config& now, int64_t ranks, int64_t here);

}  // namespace terrace::train
