// Reads numbers of bytes.
#include "terrace/data/staging/stage_keys.h"

#include <cmath>

#include "terrace/config/quantity.h"

namespace terrace::data {

std::string Bytes::description() const { return "bytes, or a string such as \"400 GB\""; }

std::string Bytes::read(const toml::node& node, int64_t& value) const {
  int64_t read = 0;
  if (node.is_string()) {
    double bytes = 0;
    std::string problem = config::Quantity{.most = 1e18}.read(node, bytes);
    if (!problem.empty()) return problem;
    read = std::llround(bytes);
  } else {
    std::string problem = config::Whole{}.read(node, read);
    if (!problem.empty()) return problem;
  }
  if (read != 0 && read < least) return fmt::format("is less than {0}, the least; use {0} or 0", least);
  value = read;
  return "";
}

config::IdleRule stage_bytes_idle_rule(std::string (*without_stage)(const config::Config&)) {
  return {.key = "data.stage_bytes", .causes = {"data.stage"}, .off = "0", .beside = without_stage};
}

}  // namespace terrace::data
