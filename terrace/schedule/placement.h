// Which part of the model is which chunk of which stage. The model is cut into stages * chunks parts in a row.
#pragma once

#include <cstdint>

namespace terrace::schedule {

struct Placement {
  enum class Shape {
    loops,  // part = chunk * stages + stage: the parts go round the stages, chunk after chunk
    vee,    // two chunks: down the stages and up again; stage s has the parts s and 2 * stages - 1 - s
  };
  int64_t stages = 1;
  int64_t chunks = 1;
  Shape shape = Shape::loops;

  int64_t parts() const { return stages * chunks; }
  int64_t part(int64_t stage, int64_t chunk) const;
  int64_t stage_of(int64_t part) const;
  int64_t chunk_of(int64_t part) const { return part / stages; }

  bool operator==(const Placement&) const = default;
};

}  // namespace terrace::schedule
