// Determines what a vision transformer takes from the checkpoint of another one, with another grid or other variables.
#pragma once

#include "terrace/models/weight_map.h"

namespace terrace::models::vit {

// Channels and outputs are matched by name: those that the other model lacks get the initial values of a new model, and
// those that the new model lacks are left out. Positions are interpolated where the grids differ, by the latitudes and
// longitudes of the prepared fields and of the description that the checkpoint keeps, and by index where one of them is
// not known; a note says which. What is an input of only one of them, the lead or the time, is new or left out. All
// else must be equal. A message names the channels and outputs that are new or left out.
WeightMap vit_weight_map(const WeightMapRequest& request);

}  // namespace terrace::models::vit
