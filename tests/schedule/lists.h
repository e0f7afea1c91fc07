// Formats lists as text and enumerates the pipelines of the tests.
#pragma once

#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/names.h"
#include "terrace/schedule/pipeline/pipeline.h"

namespace terrace::schedule {

inline std::string text(const Instructions& list) {
  std::string result;
  for (const Instruction& instruction : list) result += (result.empty() ? "" : " ") + to_string(instruction);
  return result;
}

inline std::string text(const Pipeline& pipeline) {
  return fmt::format("{}, {} stages, {} micro-batches, {} chunks", config::name_of(pipeline.schedule), pipeline.stages,
                     pipeline.micro_batches, pipeline.chunks);
}

// The list as text, without sends and receives.
inline std::string computations(const Instructions& list) {
  Instructions kept = list;
  std::erase_if(kept, [](const Instruction& one) { return is_send(one.kind) || is_receive(one.kind); });
  return text(kept);
}

// Every schedule for these numbers of stages and micro-batches from 1 on and every allowed number of chunks
// (interleaved: 1 .. 4).
inline std::vector<Pipeline> all_pipelines(int64_t most_stages = 8, int64_t most_micro_batches = 16) {
  using config::PipelineSchedule;
  std::vector<Pipeline> all;
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
                              PipelineSchedule::zb_h1, PipelineSchedule::zb_v}) {
    for (int64_t stages = 1; stages <= most_stages; ++stages) {
      for (int64_t micro_batches = 1; micro_batches <= most_micro_batches; ++micro_batches) {
        for (int64_t chunks = 1; chunks <= 4; ++chunks) {
          const Pipeline pipeline{schedule, stages, micro_batches, chunks};
          if (refusal(pipeline).empty()) all.push_back(pipeline);
        }
      }
    }
  }
  return all;
}

}  // namespace terrace::schedule
