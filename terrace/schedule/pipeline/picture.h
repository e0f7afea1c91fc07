// Draws a schedule as an SVG picture: a row for each stage, a box for each computation.
#pragma once

#include <string>

#include "terrace/schedule/pipeline/pipeline.h"

namespace terrace::schedule {

// Time runs from left to right. Forward, input gradient and weight gradient of a whole stage take one unit each and are
// divided evenly among its chunks. A box shows the number of its micro-batch; its colour shows the kind and is lighter
// for later chunks. The picture has no background and is readable on light and dark pages.
std::string picture(const Pipeline& pipeline);

}  // namespace terrace::schedule
