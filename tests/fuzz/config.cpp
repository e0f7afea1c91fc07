// Fuzzes the reader of configurations. Lines behind a zero byte are overrides, as --set gives them.
#include "terrace/config/config.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "terrace/models/planned_families.h"
#include "tests/fuzz/judge.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string toml(terrace::text_of(data, size)), rest;
  if (const size_t end = toml.find('\0'); end != std::string::npos) {
    rest = toml.substr(end + 1);
    toml.resize(end);
  }
  std::vector<std::string> overrides;
  for (size_t end = 0; !rest.empty(); rest.erase(0, end == rest.npos ? end : end + 1)) {
    end = rest.find('\n');
    overrides.push_back(rest.substr(0, end));
  }
  const terrace::config::Families& families = terrace::models::planned_families();
  terrace::config::Config config;
  if (terrace::reads_or_refuses([&] { config = terrace::config::parse(toml, "fuzzed.toml", families, overrides); })) {
    TERRACE_CHECK(terrace::config::parse(terrace::config::dump(config), "dumped.toml", families) == config,
                  "the dump is read as another configuration");
  }
  return 0;
}
