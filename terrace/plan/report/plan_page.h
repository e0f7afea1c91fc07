// The page of a plan: whether the run fits, what limits it and what would help, beside the simulated step.
#pragma once

#include <string>

#include "terrace/observe/report_page.h"
#include "terrace/plan/report/plan_report.h"

namespace terrace::plan {

// The statements of the page about the plan beside its step; `command` is the command that makes the same plan.
observe::PlanStatements statements_of(const Plan& plan, const std::string& command);

// The whole page, titled by the configuration's file.
std::string plan_page(const Plan& plan, const std::string& configuration, const std::string& command);

}  // namespace terrace::plan
