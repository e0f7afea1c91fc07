// Counts calls and bytes of a group.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>

#include "terrace/comm/comm.h"

namespace terrace::parallel {

struct Count {
  int64_t calls = 0, bytes = 0;
  bool operator==(const Count&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Count& count) {
  return out << count.calls << " calls, " << count.bytes << " bytes";
}

inline Count counted(const std::map<comm::Kind, comm::Traffic>& kinds) {
  Count count;
  for (const auto& [kind, one] : kinds) count = {count.calls + one.calls, count.bytes + one.bytes};
  return count;
}

}  // namespace terrace::parallel
