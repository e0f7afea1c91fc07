// Computes sixteen Philox blocks with consecutive counters at a time, word by word, so that the compiler vectorizes.
#pragma once

#include "terrace/base/random.h"
#include "terrace/ops/cpu/lanes.h"

namespace terrace::ops::cpu {

// words[w][l] is word w of the block at `counter` with counter[0] increased by l (with a carry into counter[1] if
// `carry` is true); the same bits as terrace::philox.
template <bool carry>
TERRACE_INLINE inline void philox_lanes(PhiloxKey key, const PhiloxBlock& counter, uint32_t (&words)[4][num_lanes]) {
  TERRACE_LANE_LOOP
  for (uint32_t lane = 0; lane < num_lanes; ++lane) {
    words[0][lane] = counter[0] + lane;
    words[1][lane] = counter[1] + (carry && words[0][lane] < counter[0] ? 1 : 0);
    words[2][lane] = counter[2];
    words[3][lane] = counter[3];
  }
  for (int round = 0; round < 10; ++round) {
    TERRACE_LANE_LOOP
    for (int64_t lane = 0; lane < num_lanes; ++lane) {
      const uint64_t a = uint64_t{0xD2511F53} * words[0][lane];
      const uint64_t b = uint64_t{0xCD9E8D57} * words[2][lane];
      words[0][lane] = static_cast<uint32_t>(b >> 32) ^ words[1][lane] ^ key[0];
      words[1][lane] = static_cast<uint32_t>(b);
      words[2][lane] = static_cast<uint32_t>(a >> 32) ^ words[3][lane] ^ key[1];
      words[3][lane] = static_cast<uint32_t>(a);
    }
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
}

}  // namespace terrace::ops::cpu
