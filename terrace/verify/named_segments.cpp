// Derives the names of segments from the unit table.
#include "terrace/verify/named_segments.h"

#include <algorithm>

#include "terrace/schedule/description.h"
#include "terrace/schedule/partition.h"

namespace terrace::verify {
namespace {

std::string common_part(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string common = names.front();
  for (const std::string& name : names) {
    const auto [end, other] = std::ranges::mismatch(common, name);
    common.erase(end, common.end());
  }
  const size_t dot = common.find_last_of('.');
  return dot == std::string::npos ? common : common.substr(0, dot);
}

}  // namespace

std::vector<NamedSegment> named_segments(const config::Config& config) {
  const schedule::UnitTable table = schedule::unit_table(config);
  std::vector<NamedSegment> named;
  for (const schedule::Segment& segment : schedule::partition(table, config.layout).segments) {
    NamedSegment& own = named.emplace_back();
    for (const auto& parameter : schedule::segment_parameters(table, segment)) own.parameters.push_back(parameter.name);
    own.name = common_part(own.parameters);
  }
  return named;
}

}  // namespace terrace::verify
