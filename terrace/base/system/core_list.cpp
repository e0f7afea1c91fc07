// Joins consecutive cores to ranges, and reads ranges.
#include "terrace/base/system/core_list.h"

#include <sstream>

namespace terrace {

CoreMask cores_of_list(const std::string& text) {
  std::istringstream list(text);
  CoreMask mask;
  for (size_t first = 0; list >> first;) {
    size_t last = first;
    if (list.peek() == '-') list.ignore() >> last;
    for (size_t core = first; core <= last && core < mask.size(); ++core) mask[core] = true;
    if (list.peek() == ',') list.ignore();
  }
  return mask;
}

std::string list_of_cores(const CoreMask& cores) {
  std::string list;
  for (size_t first = cores._Find_first(); first < cores.size(); first = cores._Find_next(first)) {
    size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1]) ++last;
    list += (list.empty() ? "" : ",") + std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
    first = last;
  }
  return list;
}

}  // namespace terrace
