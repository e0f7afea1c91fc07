// The learning rate of each step in closed form.
#pragma once

#include <cstdint>

#include "terrace/config/config.h"

namespace terrace::optim {

// The rate of step `step`; steps are counted from 1 to total_steps, as in metrics.jsonl. With
//   s = step, P = learning_rate, M = min_learning_rate, w = warmup_steps, D = decay_steps (0: total_steps),
// for all schedules, while s <= w:   P s / w
// and after that
//   constant:   P
//   linear:     P + (M - P) (s - w) / (D - w)             until s = D, then M
//   cosine:     M + (P - M) (1 + cos(pi (s - w) / (D - w))) / 2   until s = D, then M   (Loshchilov and Hutter, SGDR,
//               arXiv 1608.03983, equation 5, without restarts)
//   wsd:        P until s = total_steps - decay_steps, then linear to M at s = total_steps   (Hu et al., MiniCPM,
//               arXiv 2404.06395, with a linear decay)
// So step w has the full rate and the last step of a decay has M.
double learning_rate(const config::OptimizerConfig& config, int64_t total_steps, int64_t step);

}  // namespace terrace::optim
