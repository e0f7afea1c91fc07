// The page holds the data that it was given, whatever the names are, and says what is missing.
#include "terrace/observe/report_page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "tests/scratch_folder.h"

namespace terrace::observe {
namespace {

StepRecord example_record(const std::string& source) {
  StepRecord record;
  record.source = source;
  record.step_seconds = 1.5;
  record.links = {"node"};
  record.stages = {{.seconds = {{"products", 1.25}, {"waits for other stages", 0.25}},
                    .memory_bytes = {{"weights", 100}},
                    .events = {{.name = "F0", .kind = "forward", .lane = 0, .begin = 0, .end = 0.5}},
                    .memory = {{.seconds = 0.25, .bytes = 150}}}};
  return record;
}

ReportedRun example_run() {
  return {.name = "runs/a",
          .figures = Json{{"loss", 3.5}, {"step_seconds", 1.5}},
          .losses = LossHistory{.training = {{1, 4}, {2, 3.5}}, .validation = {{2, 3.75}}},
          .predicted = example_record("predicted"),
          .measured = example_record("measured")};
}

// The JSON between the tags of the page's data, as a browser finds it.
Json data_in(const std::string& page) {
  const std::string tag = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = page.find(tag) + tag.size();
  return Json::parse(page.substr(begin, page.find("</script", begin) - begin));
}

void write_run(const std::filesystem::path& folder) {
  const Json facts = {{"parameters", 10}, {"precision", "fp32"}, {"peak_name", "none"}, {"peak_flops_per_second", 0}};
  write_text_atomically(folder / "run.json", facts.dump());
  MetricsWriter writer(folder, 0, {.names = {.items = "tokens"}});
  writer.write(StepMetrics{.step = 1, .loss = 4, .items = 100, .step_seconds = 0.5});
  writer.write(EvaluationMetrics{.step = 1, .validation_loss = 3.75});
}

TEST(ReportPage, HasTheNotesThatItWasGivenBeforeItsOwn) {
  ReportedRun run = example_run();
  EXPECT_EQ(report_data("", {run})["runs"][0]["notes"], Json::array());
  run.notes = {"runs/b has not begun"};
  run.measured.reset();
  const Json notes = report_data("", {run})["runs"][0]["notes"];
  ASSERT_EQ(notes.size(), 2);
  EXPECT_EQ(notes[0], "runs/b has not begun");
}

TEST(ReportPage, NamesOutputsThatDependOnNoInput) {
  ReportedRun run = example_run();
  (*run.figures)["dead_outputs"] = {"energy"};
  const Json notes = report_data("", {run})["runs"][0]["notes"];
  ASSERT_EQ(notes.size(), 1);
  EXPECT_TRUE(notes[0].get<std::string>().starts_with("runs/a: the output energy has the same value for all inputs"));
}

TEST(ReportPage, HoldsTheDataThatItWasGiven) {
  const Json data = data_in(report_page("a title", {example_run()}));
  EXPECT_EQ(data, report_data("a title", {example_run()}));
  EXPECT_EQ(data["title"], "a title");
  const Json& run = data["runs"].at(0);
  EXPECT_EQ(run["name"], "runs/a");
  EXPECT_EQ(run["figures"]["step_seconds"], 1.5);
  EXPECT_EQ(run["losses"]["training"], Json::parse("[[1, 4], [2, 3.5]]"));
  EXPECT_EQ(run["losses"]["validation"], Json::parse("[[2, 3.75]]"));
  EXPECT_EQ(run["predicted"], json_of(example_record("predicted")));
  EXPECT_EQ(run["measured"], json_of(example_record("measured")));
  EXPECT_EQ(run["notes"], Json::array());
}

TEST(ReportPage, HoldsWhatAPlanSaysInWords) {
  EXPECT_TRUE(report_data("", {example_run()})["runs"].at(0)["plan"].is_null());
  ReportedRun planned = example_run();
  planned.plan = {.fits = false,
                  .verdict = "Does not fit: no.",
                  .limit = "90% of the step goes to waits.",
                  .facts = {{"precision", "bf16"}, {"layout", "tensor 2"}},
                  .warnings = {"groups leave"},
                  .command = "terrace plan it",
                  .changes = {{.settings = "--set layout.tensor=4", .step_seconds = 2, .gain = 0.25}}};
  EXPECT_EQ(report_data("", {planned})["runs"].at(0)["plan"], Json::parse(R"({
    "fits": false, "verdict": "Does not fit: no.", "limit": "90% of the step goes to waits.",
    "facts": [["precision", "bf16"], ["layout", "tensor 2"]], "warnings": ["groups leave"],
    "command": "terrace plan it", "changes": [{"settings": "--set layout.tensor=4", "step_seconds": 2.0, "gain": 0.25}]})"));
}

TEST(ReportPage, SingleFileWithStyleScriptsAndLicenceOfD3) {
  const std::string page = report_page("a title", {example_run()});
  EXPECT_NE(page.find("<title>a title</title>"), std::string::npos);
  for (const char* part : {"--colour-0: #0072b2", "class Timeline", "d3_document", "Michael Bostock"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  for (const char* absent : {"{{", "src=\"", "@import", "<link rel=\"stylesheet\""}) {
    EXPECT_EQ(page.find(absent), std::string::npos) << absent;
  }
}

TEST(ReportPage, NamesCannotEndTheScriptOrTheTitle) {
  ReportedRun run = example_run();
  run.name = "</script><script>alert(1)</script><!--<script>{{data}}";
  run.predicted->stages.front().events.front().name = "</SCRIPT >";
  const std::string page = report_page("{{data}}</title>&amp;", {run});
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("</SCRIPT"), std::string::npos);
  EXPECT_EQ(page.find("<!--<script>"), std::string::npos);
  EXPECT_NE(page.find("<title>{{data}}&lt;/title&gt;&amp;amp;</title>"), std::string::npos);
  EXPECT_EQ(data_in(page), report_data("{{data}}</title>&amp;", {run}));
}

TEST(ReportPage, NumbersThatAreNotKnownAreNullAndNamesNeedNotBeUtf8) {
  ReportedRun run = example_run();
  run.name = "a\xff";
  run.predicted->step_seconds = std::numeric_limits<double>::quiet_NaN();
  const Json data = data_in(report_page(run.name, {run}));
  EXPECT_TRUE(data["runs"].at(0)["predicted"]["step_seconds"].is_null());
  EXPECT_EQ(data["runs"].at(0)["name"], "a\uFFFD");
}

TEST(ReportPage, SaysHowToGetTheRecordsThatARunLacks) {
  const auto note_of = [](const ReportedRun& run) {
    const Json notes = report_data("", {run})["runs"].at(0)["notes"];
    return notes.empty() ? std::string() : notes.at(0).get<std::string>();
  };
  ReportedRun run = example_run();
  run.measured.reset();
  EXPECT_EQ(note_of(run),
            "runs/a lacks the record of a measured step, measured_step.json: set observe.machine to the name of a "
            "machine, such as observe.machine = \"laptop\", and train again.");
  run.predicted.reset();
  EXPECT_NE(note_of(run).find("predicted_step.json and measured_step.json: set observe.machine"), std::string::npos);
  const Json data = report_data("", {run});
  EXPECT_TRUE(data["runs"].at(0)["predicted"].is_null());

  // A prediction was not trained, so nothing is missing.
  const ReportedRun prediction{.name = "a plan", .predicted = example_record("predicted")};
  EXPECT_EQ(note_of(prediction), "");
  EXPECT_TRUE(report_data("", {prediction})["runs"].at(0)["losses"].is_null());
}

TEST(ReportedRuns, ReadsRunsWithAndWithoutRecords) {
  const ScratchFolder folder;
  write_run(folder.path());
  ReportedRun run = read_reported_run(folder / "");
  EXPECT_EQ(run.name, folder.path().string());
  EXPECT_EQ((*run.figures)["tokens"], 100);
  EXPECT_FALSE(run.figures->contains("files"));
  ASSERT_TRUE(run.losses.has_value());
  EXPECT_EQ(run.losses->training, (std::vector<std::pair<double, double>>{{1, 4}}));
  EXPECT_EQ(run.losses->validation, (std::vector<std::pair<double, double>>{{1, 3.75}}));
  EXPECT_FALSE(run.predicted || run.measured);

  write_step_record(example_record("predicted"), folder.path() / predicted_step_file);
  write_step_record(example_record("measured"), folder.path() / measured_step_file);
  run = read_reported_run(folder.path());
  EXPECT_EQ(run.predicted, example_record("predicted"));
  EXPECT_EQ(run.measured, example_record("measured"));
}

TEST(ReportedRuns, RefusesAFolderWithoutARunAndABrokenRecord) {
  const ScratchFolder folder;
  try {
    read_reported_run(folder.path());
    FAIL() << "was read";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("holds no run"), std::string::npos) << error.what();
  }
  write_run(folder.path());
  std::ofstream(folder.path() / measured_step_file) << "{}";
  try {
    read_reported_run(folder.path());
    FAIL() << "was read";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("measured_step.json"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace terrace::observe
