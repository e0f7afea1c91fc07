// Text, JSON and page say what the explanation says.
#include "terrace/search/explain/explain_report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "terrace/base/files/file.h"
#include "tests/scratch_folder.h"

namespace terrace::search {
namespace {

// 40 trials of two parameters; those with x = 9 fail.
TrialTable written_trials(const ScratchFolder& folder, const std::string& word = "slow") {
  std::string text = "p:x,p:kind,objective,job_id,m:memory_bytes\n";
  for (int i = 0; i < 40; ++i) {
    const int x = i % 10;
    const bool is_fast = i >= 20;
    text += fmt::format("{},{},{},{},{}\n", x, is_fast ? "fast" : word,
                        x == 9 ? "F_oom" : std::to_string(x + (is_fast ? 2 : 0)), i, 1000 + x);
  }
  write_text_atomically(folder / "results.csv", text);
  return read_trial_table(folder / "results.csv");
}

TEST(ExplainReport, TextHasTheRankingOfEachAttribution) {
  const ScratchFolder folder;
  const TrialTable trials = written_trials(folder);
  const std::string text = text_of(trials, explain(trials, FailuresAs::left_out));
  EXPECT_TRUE(text.starts_with("40 trials in " + trials.path.string() + ": 36 done, 4 failed (4 F_oom)\n")) << text;
  EXPECT_NE(text.find("What objective depends on (36 trials that did not fail, R^2 "), std::string::npos) << text;
  EXPECT_NE(text.find("\n1  x          "), std::string::npos) << text;
  EXPECT_NE(text.find("together: x with kind: "), std::string::npos) << text;
  EXPECT_NE(text.find("What makes a trial fail (40 trials of which 10.0% failed, R^2 "), std::string::npos) << text;
  const std::string worst = text_of(trials, explain(trials, FailuresAs::worst));
  EXPECT_NE(worst.find("(40 trials, those that failed with the worst value, "), std::string::npos) << worst;
}

TEST(ExplainReport, SaysOfHowManyTrialsAParameterIsThatSomeDoNotHave) {
  const ScratchFolder folder;
  std::string rows = "p:kind,p:chunks,objective\n";
  for (int i = 0; i < 20; ++i) {
    rows += i < 8 ? fmt::format("plain,,{}\n", i % 3) : fmt::format("cut,{},{}\n", i % 4, 5 + i % 4);
  }
  write_text_atomically(folder / "results.csv", rows);
  const TrialTable trials = read_trial_table(folder / "results.csv");
  const Explanation explanation = explain(trials, FailuresAs::left_out);
  EXPECT_NE(text_of(trials, explanation).find("\nchunks exists in 12 of these trials; its figures are of them alone\n"),
            std::string::npos)
      << text_of(trials, explanation);
  const Json of = json_of(trials, explanation)["attributions"][0];
  for (const Json& one : of["ranking"]) EXPECT_EQ(one["trials"], one["parameter"] == "chunks" ? 12 : 20);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(of["contributions"][1][i].is_null(), i < 8);
}

TEST(ExplainReport, JsonHasTrialsAndAttributions) {
  const ScratchFolder folder;
  const TrialTable trials = written_trials(folder);
  const Explanation explanation = explain(trials, FailuresAs::left_out);
  const Json json = json_of(trials, explanation);
  EXPECT_EQ(json["trials"], 40);
  EXPECT_EQ(json["failed"], 4);
  EXPECT_EQ(json["failure_kinds"], Json::parse(R"({"F_oom": 4})"));
  EXPECT_EQ(json["failures_as"], "leave-out");
  EXPECT_EQ(json["parameters"][1]["values"], Json::parse(R"(["fast", "slow"])"));
  EXPECT_TRUE(json["objectives"][0]["values"][9].is_null());
  EXPECT_EQ(json["failures"][9], "F_oom");
  EXPECT_EQ(json["best"][0], 28);  // x = 8, fast
  EXPECT_EQ(json["best"].size(), 20);
  const Json& of = json["attributions"][0];
  EXPECT_EQ(of["name"], "objective");
  EXPECT_EQ(of["ranking"][0]["parameter"], "x");
  EXPECT_EQ(of["ranking"][0]["effect"], explanation.attributions[0].effects[0]);
  EXPECT_EQ(of["pairs"][0]["parameters"], Json::parse(R"(["x", "kind"])"));
  EXPECT_EQ(of["contributions"].size(), 2);
  EXPECT_EQ(of["contributions"][0].size(), of["rows"].size());
  EXPECT_EQ(json["attributions"][1]["failure"], true);
}

TEST(ExplainReport, PageHoldsTheJsonWhateverTheWordsAre) {
  const ScratchFolder folder;
  const TrialTable trials = written_trials(folder, "</script><script>alert(1)</script>");
  const Explanation explanation = explain(trials, FailuresAs::left_out);
  const std::string page = explain_page(trials, explanation);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  const std::string tag = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = page.find(tag) + tag.size();
  EXPECT_EQ(Json::parse(page.substr(begin, page.find("</script", begin) - begin)), json_of(trials, explanation));
  for (const char* part : {"class ParallelCoordinates", "--failed: ", "Michael Bostock"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  for (const char* absent : {"{{", "src=\"", "@import", "http-equiv=\"refresh\""}) {
    EXPECT_EQ(page.find(absent), std::string::npos) << absent;
  }
}

}  // namespace
}  // namespace terrace::search
