// Draws a schedule as an SVG picture: a row for each stage, a box for each computation.
#pragma once

#include <string>

#include "terrace/schedule/pipeline.h"

namespace terrace::schedule {

// Time goes from left to right; forward, input gradient and weight gradient of a whole stage all take one unit, of one
// of its chunks a part of that. A box has its micro-batch's number, its kind's colour, and is lighter in later chunks.
// The picture has no background and can be read on a light and on a dark page.
std::string picture(const Pipeline& pipeline);

}  // namespace terrace::schedule
