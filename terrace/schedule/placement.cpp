// Parts to stages and back.
#include "terrace/schedule/placement.h"

#include "terrace/base/error.h"

namespace terrace::schedule {

int64_t Placement::part(int64_t stage, int64_t chunk) const {
  TERRACE_CHECK(stage >= 0 && stage < stages && chunk >= 0 && chunk < chunks, "stage {} of {}, chunk {} of {}", stage,
                stages, chunk, chunks);
  return chunk * stages + (shape == Shape::vee && chunk == 1 ? stages - 1 - stage : stage);
}

int64_t Placement::stage_of(int64_t part) const {
  TERRACE_CHECK(part >= 0 && part < parts(), "part {} of {}", part, parts());
  return shape == Shape::vee && part >= stages ? 2 * stages - 1 - part : part % stages;
}

}  // namespace terrace::schedule
