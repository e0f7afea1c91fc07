// Counts the atoms of each element.
#include "terrace/data/graphs/structures/formula.h"

#include <map>
#include <string_view>

#include "terrace/data/graphs/structures/elements.h"

namespace terrace::data {

std::string formula_of(std::span<const uint8_t> species) {
  std::map<std::string_view, int64_t> counts;
  for (const uint8_t element : species) ++counts[element_symbol(element)];
  std::string text;
  const auto append = [&](std::string_view symbol, int64_t count) {
    text += symbol;
    if (count > 1) text += std::to_string(count);
  };
  if (counts.contains("C")) {
    for (const char* first : {"C", "H"}) {
      if (const auto found = counts.find(first); found != counts.end()) {
        append(found->first, found->second);
        counts.erase(found);
      }
    }
  }
  for (const auto& [symbol, count] : counts) append(symbol, count);
  return text;
}

}  // namespace terrace::data
