// Sums the rows of a table of operations whose names contain a given text.
#pragma once

#include <string>

#include "terrace/observe/operation_table.h"

namespace terrace::observe {

inline OperationRow sum_of(const OperationTable& table, const std::string& part = "") {
  OperationRow sum;
  for (const OperationRow& row : table.rows) {
    if (row.name.find(part) == std::string::npos) continue;
    sum.calls += row.calls;
    sum.seconds += row.seconds;
    sum.flops += row.flops;
    sum.bytes += row.bytes;
  }
  return sum;
}

}  // namespace terrace::observe
