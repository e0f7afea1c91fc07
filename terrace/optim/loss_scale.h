// Dynamic loss scaling for fp16 (Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.2).
#pragma once

#include <cstdint>

namespace terrace::optim {

// The loss is multiplied by `scale` before backward. A step whose gradients overflow is skipped and halves the scale;
// `window` good steps in a row double it.
struct LossScale {
  double scale = 1.0;
  int64_t window = 0;  // 0: the scale never changes (fp32 and bf16)
  int64_t good_steps = 0;

  static constexpr double smallest = 1.0 / 16384, largest = 16777216.0;

  // Returns whether the step may be applied, and adapts the scale.
  bool update(bool finite) {
    if (window == 0) return finite;
    if (!finite) {
      scale = scale / 2;
      good_steps = 0;
      return false;
    }
    if (++good_steps >= window) {
      scale = scale * 2 > largest ? largest : scale * 2;
      good_steps = 0;
    }
    return true;
  }

  // Whether the scale is so small that the run must have diverged.
  bool exhausted() const { return window != 0 && scale < smallest; }
};

}  // namespace terrace::optim
