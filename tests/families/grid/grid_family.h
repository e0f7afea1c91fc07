// A family of forecasts on a grid, small enough for tests, with what a useful family beside language models needs:
// fields of floats, weights, figures of its own, a file that checkpoints keep, outputs that are written to disk.
#pragma once

#include "terrace/config/family.h"

namespace terrace::grid {

const config::Family& planned_family();  // without model and data
const config::Family& family();

}  // namespace terrace::grid
