// Own time of nested operations, what counts to a step, and the trace file; times by hand in nanoseconds.
#include "terrace/observe/operation_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "tests/scratch_folder.h"

namespace terrace::observe {
namespace {

using ::testing::HasSubstr;

Span phase(const char* name, int64_t begin, int64_t end) {
  return {.name = name, .kind = SpanKind::phase, .begin_ns = begin, .end_ns = end};
}

Span operation(const char* name, int64_t begin, int64_t end, double flops = 0, double bytes = 0) {
  return {.name = name, .begin_ns = begin, .end_ns = end, .flops = flops, .bytes = bytes};
}

const OperationRow& row_of(const std::vector<OperationRow>& rows, const std::string& name) {
  for (const OperationRow& row : rows) {
    if (row.name == name) return row;
  }
  throw std::out_of_range(name);
}

// linear [100, 400) holds mm [150, 350), which holds copy [200, 250); then add [400, 500).
Trace one_step() {
  return {{.name = "training",
           .spans = {operation("copy", 200, 250, 0, 64), operation("mm", 150, 350, 1000, 300),
                     operation("linear", 100, 400, 0, 240), operation("add", 400, 500, 0, 50),
                     phase("forward", 50, 600), phase("step", 0, 1000)}}};
}

TEST(OperationTable, CountsToEachOperationWhatThoseInsideItDoNot) {
  const OperationTable table = count_operations(one_step());
  EXPECT_EQ(table.steps, 1);
  EXPECT_DOUBLE_EQ(table.seconds, 1000e-9);
  EXPECT_DOUBLE_EQ(row_of(table.rows, "linear").seconds, 100e-9);
  EXPECT_DOUBLE_EQ(row_of(table.rows, "mm").seconds, 150e-9);
  EXPECT_DOUBLE_EQ(row_of(table.rows, "copy").seconds, 50e-9);
  EXPECT_DOUBLE_EQ(row_of(table.rows, "add").seconds, 100e-9);
  EXPECT_DOUBLE_EQ(table.between_seconds, 600e-9);
  // The product's bytes are 300 with the copy's; the layer around both moves nothing of its own.
  EXPECT_EQ(row_of(table.rows, "mm").bytes, 300 - 64);
  EXPECT_EQ(row_of(table.rows, "linear").bytes, 0);
  EXPECT_EQ(row_of(table.rows, "linear").flops, 0);
  EXPECT_EQ(row_of(table.rows, "mm").flops, 1000);
}

TEST(OperationTable, PhasesHaveAllOfTheirTimeAndWork) {
  const OperationTable table = count_operations(one_step());
  ASSERT_EQ(table.phases.size(), 2u);
  EXPECT_DOUBLE_EQ(row_of(table.phases, "forward").seconds, 550e-9);
  EXPECT_EQ(row_of(table.phases, "forward").flops, 1000);
  EXPECT_EQ(row_of(table.phases, "step").bytes, 350);
}

TEST(OperationTable, CountsOnlyWhatBelongsToAStep) {
  Trace trace = one_step();
  // An evaluation after the step; a backward pass in a thread of its own; a copy for a checkpoint in another.
  trace[0].spans.push_back(phase("evaluate", 1000, 2000));
  trace[0].spans.push_back(operation("mm", 1100, 1900, 5000));
  trace.push_back({.name = "thread 1", .spans = {operation("mm", 650, 750, 2000), operation("mm", 1500, 1600, 9)}});
  trace.push_back({.name = "thread 2", .spans = {phase("write", 0, 900), operation("copy", 100, 800)}});
  const OperationTable table = count_operations(trace);
  EXPECT_EQ(row_of(table.rows, "mm").calls, 2);
  EXPECT_EQ(row_of(table.rows, "mm").flops, 3000);
  EXPECT_DOUBLE_EQ(row_of(table.rows, "copy").seconds, 50e-9);
  EXPECT_DOUBLE_EQ(table.between_seconds, 500e-9);
}

TEST(OperationTable, RatesAreOfOwnTime) {
  const Json json = count_operations(one_step()).json();
  const Json& first = json["operations"][0];
  EXPECT_EQ(first["name"], "mm");
  EXPECT_DOUBLE_EQ(first["flops_per_second"].get<double>(), 1000 / 150e-9);
  EXPECT_DOUBLE_EQ(first["share"].get<double>(), 0.15);
  EXPECT_TRUE(json["operations"][1]["flops_per_second"].is_null());
}

TEST(OperationTable, TextShowsTheFirstRowsAndSumsUpTheRest) {
  const std::string text = count_operations(one_step()).text(1);
  EXPECT_THAT(text, HasSubstr("mm "));
  EXPECT_THAT(text, HasSubstr("3 other operations"));
  EXPECT_THAT(text, HasSubstr("between operations"));
  EXPECT_EQ(count_operations({}).text(), "no step was recorded\n");
}

TEST(ChromeTrace, EventPerSpanWithTimesInMicroseconds) {
  const ScratchFolder folder;
  Trace trace = one_step();
  for (Span& span : trace[0].spans) span.begin_ns += 5'000'000, span.end_ns += 5'000'000;
  trace[0].spans[0].detail = "[2, 3] \"quoted\"";
  trace.push_back({.name = "thread 1", .spans = {operation("mm", 5'000'650, 5'000'750, 2000)}});
  write_chrome_trace(trace, folder / "trace.json");
  const Json json = Json::parse(read_text(folder / "trace.json"));
  const Json& events = json["traceEvents"];
  ASSERT_EQ(events.size(), 3u + 7u);  // the names of the program and two lanes, and the spans
  EXPECT_EQ(events[1]["args"]["name"], "training");
  // An enclosing span stands before those inside it.
  EXPECT_EQ(events[2]["name"], "step");
  EXPECT_EQ(events[2]["ts"], 0.0);
  EXPECT_EQ(events[2]["dur"], 1.0);
  EXPECT_EQ(events[5]["name"], "mm");
  EXPECT_EQ(events[5]["ts"], 0.15);
  EXPECT_DOUBLE_EQ(events[5]["args"]["flops_per_second"].get<double>(), 1000 / 200e-9);
  EXPECT_EQ(events[6]["args"]["detail"], "[2, 3] \"quoted\"");
  EXPECT_EQ(events[9]["tid"], 1);
}

}  // namespace
}  // namespace terrace::observe
