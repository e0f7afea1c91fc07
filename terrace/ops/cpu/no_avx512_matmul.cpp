// Replaces the matrix products on processors that are not x86-64.
#include "terrace/base/error.h"
#include "terrace/ops/cpu/matmul.h"

namespace terrace::ops::cpu {

bool has_matmul(c10::ScalarType) { return false; }

void matmul(c10::ScalarType type, const Factor&, const Factor&, int64_t, int64_t, int64_t, const Finish&) {
  TERRACE_CHECK(false, "this processor has no matrix products of {}", c10::toString(type));
}

}  // namespace terrace::ops::cpu
