// Ranks and links that are slow are named, beside the others and beside the machine's description.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/doctor/checks.h"

namespace terrace::doctor {
namespace {

using testing::HasSubstr;

// Two nodes of four ranks, each with links to its neighbours in the node and to its peer in the other node.
JobReadings equal_ranks() {
  JobReadings job;
  for (int64_t rank = 0; rank < 8; ++rank) {
    Readings readings{
        .rank = rank, .host = rank < 4 ? "a" : "b", .measured = {.product_flops = 4e12, .copied_bytes = 2e11}};
    for (const int64_t other : {rank - 1, rank + 1}) {
      if (other / 4 == rank / 4 && other >= 0) readings.measured.links.emplace_back(other, 8e9);
    }
    readings.measured.links.emplace_back((rank + 4) % 8, 1e9);
    job.push_back(readings);
  }
  return job;
}

std::vector<Finding> findings_of_speed(const JobReadings& job) {
  std::vector<Finding> findings;
  for (const Finding& finding : diagnose(job).findings) {
    for (const Check& check : speed_checks()) {
      if (check.name == finding.check) findings.push_back(finding);
    }
  }
  return findings;
}

TEST(DoctorSpeed, EqualRanksAreClean) {
  EXPECT_EQ(findings_of_speed(equal_ranks()), std::vector<Finding>{});
  JobReadings alone = {equal_ranks().front()};
  alone.front().measured.links.clear();
  EXPECT_EQ(findings_of_speed(alone), std::vector<Finding>{});
  EXPECT_THAT(text_of(diagnose(alone)), HasSubstr("links: there is one rank"));
}

TEST(DoctorSpeed, IsCheckedOnlyWhereItWasMeasured) {
  JobReadings job = equal_ranks();
  EXPECT_THAT(diagnose(job).checks, testing::Contains("copies"));
  for (Readings& rank : job) rank.measured = {};
  EXPECT_THAT(diagnose(job).checks, testing::Not(testing::Contains("copies")));
}

TEST(DoctorSpeed, ASlowRankIsNamed) {
  JobReadings job = equal_ranks();
  job[5].measured.product_flops = 3.3e12;
  job[2].measured.copied_bytes = 1e11;
  job[3].measured.copied_bytes = 1.9e11;  // as much as measurements differ
  const std::vector<Finding> findings = findings_of_speed(job);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].check, "products");
  EXPECT_EQ(findings[0].found, "rank 5 on b: 3.3 TFLOP/s, where half of them reach 4.0 TFLOP/s");
  EXPECT_EQ(findings[1].check, "copies");
  EXPECT_THAT(findings[1].found, HasSubstr("rank 2 on a: 93.1 GiB/s"));
  EXPECT_EQ(findings[1].severity, Severity::warning);
}

TEST(DoctorSpeed, ARankWithUnequalTimesIsNamed) {
  JobReadings job = equal_ranks();
  for (Readings& rank : job) rank.measured.product_spread = 0.08;
  job[5].measured.product_spread = 0.2;
  job[5].measured.longest_product = 3.25;
  job[6].measured.product_spread = 0.155;  // less than twice as much as the others
  std::vector<Finding> findings = findings_of_speed(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "equal products");
  EXPECT_EQ(
      findings[0].found,
      "rank 5 on b: times of equal products spread by 20%, the longest took 3.2 times as long as most, where those "
      "of half of the ranks spread by 8%");
  for (Readings& rank : job) rank.measured.product_spread = 0.16;
  EXPECT_EQ(findings_of_speed(job), std::vector<Finding>{});
  for (Readings& rank : job) rank.described.product_spread = 0.02;
  findings = findings_of_speed(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].found, HasSubstr("spread by 16%, "));
  EXPECT_THAT(findings[0].found, HasSubstr(", where the machine's description has 2%"));
}

TEST(DoctorSpeed, OfTwoRanksTheSlowerOneIsNamed) {
  JobReadings job = equal_ranks();
  job.resize(2);
  for (Readings& rank : job) rank.measured.links = {{1 - rank.rank, 8e9}};
  job[0].measured.product_flops = 1e12;
  const std::vector<Finding> findings = findings_of_speed(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].found, HasSubstr("rank 0 on a: 1.0 TFLOP/s"));
}

TEST(DoctorSpeed, ASlowLinkIsComparedWithLinksOfItsKind) {
  JobReadings job = equal_ranks();
  job[6].measured.links.back().second = 0.5e9;
  const std::vector<Finding> findings = findings_of_speed(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "links");
  EXPECT_THAT(findings[0].found, HasSubstr("rank 6 on b: to rank 2 476.8 MiB/s, where half of them reach 953.7 MiB/s"));
}

TEST(DoctorSpeed, EqualRanksAreComparedWithTheDescription) {
  JobReadings job = equal_ranks();
  for (Readings& rank : job) {
    rank.described = {.product_flops = 5e12, .copied_bytes = 4e11, .links = {{(rank.rank + 4) % 8, 1.5e9}}};
  }
  const std::vector<Finding> findings = findings_of_speed(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].check, "copies");
  EXPECT_THAT(findings[0].found, HasSubstr("186.3 GiB/s, where the machine's description has 372.5 GiB/s"));
}

}  // namespace
}  // namespace terrace::doctor
