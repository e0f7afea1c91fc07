// A trace: what the threads of a process did and when, as nested spans; and its trace file for viewers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace terrace::observe {

enum class SpanKind {
  phase,      // a section of the program: a step, its forward pass, saving
  operation,  // an operation on tensors
};

// A named interval of time. Two spans of one lane are either disjoint or nested.
struct Span {
  std::string name;
  SpanKind kind = SpanKind::operation;
  int64_t begin_ns = 0, end_ns = 0;  // of any clock that all lanes share
  double flops = 0;                  // floating-point operations, including those of inner spans
  double bytes = 0;                  // read and written, including those of inner spans
  std::string detail = {};           // such as the shapes of the inputs
};

// The spans of one thread, in any order.
struct Lane {
  std::string name;
  int64_t rank = 0;  // the rank that the thread computes for; -1 for no single rank
  std::vector<Span> spans = {};
};

using Trace = std::vector<Lane>;

// The phase of a whole training step; the table of operations counts the spans inside of it.
inline constexpr const char* step_phase = "step";

// Writes JSON trace events (the "Trace Event Format" of Chrome), which Perfetto and chrome://tracing open: a complete
// event for each span, a track for each thread, a process for each rank, times in microseconds from the first span.
// FLOPs, bytes and detail are arguments.
void write_chrome_trace(const Trace& trace, const std::filesystem::path& path);

// The order in which a span comes after the one that encloses it.
bool encloses_or_precedes(const Span& a, const Span& b);

}  // namespace terrace::observe
