// What the threads of a process did and when, as nested spans, and the trace file that viewers open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace terrace::observe {

enum class SpanKind {
  phase,      // a stretch of the program: a step, its forward, saving
  operation,  // an operation on tensors
};

// Spans of one lane either lie apart or one inside the other.
struct Span {
  std::string name;
  SpanKind kind = SpanKind::operation;
  int64_t begin_ns = 0, end_ns = 0;  // of any clock that all lanes share
  double flops = 0;                  // floating-point operations, those of spans inside included
  double bytes = 0;                  // read and written, those of spans inside included
  std::string detail = {};           // such as the shapes of the inputs
};

// The spans of one thread, in any order.
struct Lane {
  std::string name;
  int64_t rank = 0;  // that the thread computes for; -1: for none alone
  std::vector<Span> spans = {};
};

using Trace = std::vector<Lane>;

// The phase that encloses all of a training step; the table of operations counts what lies in it.
inline constexpr const char* step_phase = "step";

// Writes JSON trace events (the "Trace Event Format" of Chrome), which Perfetto and chrome://tracing open: a complete
// event a span, a track a thread, a group of tracks a rank, times in microseconds from the first span. FLOPs, bytes and
// detail are arguments.
void write_chrome_trace(const Trace& trace, const std::filesystem::path& path);

// The order in which a span comes after the one that encloses it.
bool encloses_or_precedes(const Span& a, const Span& b);

}  // namespace terrace::observe
