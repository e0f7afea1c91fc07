// Says where a run stages its data: data.stage and data.stage_bytes, which every family of data on disk has.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::data {

struct StageConfig {
  std::string folder = {};  // on a disk of each node, as the file has it, with names of variables; "": no staging
  int64_t bytes = 0;        // of the buffer on that disk; 0: as much as the data or the disk allows

  bool stages() const { return !folder.empty(); }
  bool operator==(const StageConfig&) const = default;
};

}  // namespace terrace::data
