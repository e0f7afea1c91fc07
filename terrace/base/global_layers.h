// Which layers of a model see all positions where the others see a window.
#pragma once

#include <cstdint>

namespace terrace {

// Whether the layer is an n-th one of every n layers, counted from 0, as in Gemma 2 and 3; none is for 0.
inline bool sees_all(int64_t layer, int64_t every) { return every > 0 && (layer + 1) % every == 0; }

}  // namespace terrace
