// Changes the environment of all ranks of a faked node, and expects one finding of one check.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/doctor/faked_nodes.h"

namespace terrace::doctor {

inline void set_on_all(FrontierJob& job, const std::string& name, const std::string& value) {
  job.on_all([&](FakedNode& node) { node.view.environment[name] = value; });
}

inline void unset_on_all(FrontierJob& job, const std::string& name) {
  job.on_all([&](FakedNode& node) { node.view.environment.erase(name); });
}

inline void expect_one(const FrontierJob& job, const std::string& check, const std::string& found,
                       const std::string& fix, Severity severity = Severity::error) {
  const Diagnosis diagnosis = job.diagnose();
  ASSERT_THAT(diagnosis.findings, testing::SizeIs(1)) << text_of(diagnosis);
  const Finding& finding = diagnosis.findings[0];
  EXPECT_EQ(finding.check, check);
  EXPECT_THAT(finding.found, testing::HasSubstr(found));
  EXPECT_THAT(finding.fix, testing::HasSubstr(fix));
  EXPECT_FALSE(finding.why.empty());
  EXPECT_EQ(finding.severity, severity);
  EXPECT_THAT(diagnosis.not_applicable, testing::SizeIs(testing::Le(3U)));
}

}  // namespace terrace::doctor
