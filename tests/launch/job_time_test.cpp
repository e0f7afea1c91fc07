// Tests lengths of time as sbatch writes them.
#include "terrace/launch/job_time.h"

#include <gtest/gtest.h>

namespace terrace::launch {
namespace {

TEST(JobTime, IsReadAsSbatchReadsIt) {
  EXPECT_EQ(parse_job_time("90"), 5400);
  EXPECT_EQ(parse_job_time("30:15"), 1815);
  EXPECT_EQ(parse_job_time("12:00:00"), 43'200);
  EXPECT_EQ(parse_job_time("2-00"), 172'800);
  EXPECT_EQ(parse_job_time("1-06:30"), 86'400 + 23'400);
  EXPECT_EQ(parse_job_time("1-00:00:01"), 86'401);
  EXPECT_EQ(parse_job_time("1h30m"), 5400);
}

TEST(JobTime, OtherTextIsNone) {
  for (const char* text : {"", "0", "soon", "-1", "1:2:3:4", "1-2:3:4:5", ":", "12:", "1.5", "1-"}) {
    EXPECT_FALSE(parse_job_time(text)) << text;
  }
}

TEST(JobTime, IsWrittenSoThatItIsReadBack) {
  EXPECT_EQ(job_time_text(43'200), "12:00:00");
  EXPECT_EQ(job_time_text(59.5), "00:01:00");
  EXPECT_EQ(job_time_text(172'801), "2-00:00:01");
  for (const double seconds : {60.0, 3599.0, 86'399.0, 86'400.0, 1e6}) {
    EXPECT_EQ(parse_job_time(job_time_text(seconds)), seconds);
  }
}

}  // namespace
}  // namespace terrace::launch
