// Sends readings as texts of one length.
#include "terrace/doctor/gather.h"

#include <algorithm>
#include <string>
#include <vector>

namespace terrace::doctor {

Diagnosis diagnose_together(comm::Comm& all, const Readings& own) {
  const std::string text = text_of(own);
  const auto size = static_cast<int64_t>(text.size());
  std::vector<int64_t> sizes(static_cast<size_t>(all.size()));
  all.all_gather(&size, sizes.data(), 1, comm::Type::int64, {.what = "sizes of readings"}).wait();
  const auto longest = static_cast<size_t>(std::ranges::max(sizes));
  std::string padded = text;
  padded.resize(longest);
  std::string texts(longest * sizes.size(), ' ');
  all.all_gather(padded.data(), texts.data(), static_cast<int64_t>(longest), comm::Type::uint8, {.what = "readings"})
      .wait();
  Diagnosis diagnosis;
  if (all.member() == 0) {
    Job job;
    for (size_t i = 0; i < sizes.size(); ++i) {
      job.push_back(readings_of(texts.substr(i * longest, static_cast<size_t>(sizes[i]))));
    }
    diagnosis = diagnose(job);
  }
  auto findings = static_cast<int64_t>(diagnosis.findings.size());
  all.broadcast(&findings, 1, comm::Type::int64, 0, {.what = "number of findings"}).wait();
  diagnosis.findings.resize(static_cast<size_t>(findings));
  return diagnosis;
}

}  // namespace terrace::doctor
