// Replaces the products of a few rows on processors that are not x86-64.
#include "terrace/base/error.h"
#include "terrace/ops/cpu/rows_times.h"

namespace terrace::ops::cpu {

bool has_rows_times(c10::ScalarType) { return false; }

void rows_times(c10::ScalarType type, const RowsTimes&) {
  TERRACE_CHECK(false, "this processor has no matrix products of {}", c10::toString(type));
}

}  // namespace terrace::ops::cpu
