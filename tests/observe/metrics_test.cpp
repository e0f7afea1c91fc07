// metrics.jsonl: the keys, one line a step across restarts, damaged lines.
#include "terrace/observe/metrics.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <regex>
#include <sstream>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "tests/file_size_limit.h"
#include "tests/scratch_folder.h"

namespace terrace::observe {
namespace {

class Metrics : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_ / "metrics.jsonl"; }

  std::vector<Json> lines() const {
    std::vector<Json> result;
    std::istringstream stream(read_text(file()));
    for (std::string line; std::getline(stream, line);) result.push_back(Json::parse(line));
    return result;
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> result;
    for (const Json& line : lines()) result.push_back(line["step"]);
    return result;
  }

  ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_ / "run";
};

// A family that counts tokens.
const MetricsFormats of_text{.names = {.items = "tokens"}};

void write_steps(MetricsWriter& writer, int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step) {
    writer.write(StepMetrics{.step = step, .loss = 10.0 / static_cast<double>(step)});
  }
}

std::string without_times(const std::string& lines) {
  return std::regex_replace(lines, std::regex(",\"time\":[0-9]{10,}\\.[0-9]+}\n"), "}\n");
}

// The figures are two losses that are trained on together, in every line and in the order of their names.
TEST_F(Metrics, FiguresOfTheFamilyAreReadUnderTheirNames) {
  const MetricNames names{.items = "atoms",
                          .figures = {"loss_energy", "loss_forces"},
                          .evaluation_figures = {"loss_energy", "loss_forces"}};
  const StepMetrics step{.step = 1, .loss = 3, .items = 70, .items_per_second = 35, .figures = {1, 2}};
  const EvaluationMetrics evaluation{.step = 1, .validation_loss = 4, .figures = {1.5, 2.5}};
  {
    MetricsWriter writer(folder_, 0, {.names = names});
    writer.write(step);
    writer.write(evaluation);
  }
  const std::string text = read_text(folder_ / "metrics.jsonl");
  EXPECT_NE(text.find("\"atoms\":70,\"atoms_per_second\":35.0"), std::string::npos) << text;
  EXPECT_NE(text.find("\"validation_loss_forces\":2.5,\"time\":"), std::string::npos) << text;
  const RunMetrics read = read_metrics(folder_);
  EXPECT_EQ(read.names, names);
  EXPECT_EQ(read.steps.at(1).items, 70);
  EXPECT_EQ(read.steps.at(1).figures, step.figures);
  EXPECT_EQ(read.evaluations.at(1).figures, evaluation.figures);
}

TEST_F(Metrics, FixedKeysInEveryLine) {
  MetricsWriter writer(folder_ / "made" / "too", 0, of_text);
  writer.write(StepMetrics{.step = 3,
                           .loss = 0.1,
                           .gradient_norm = 2,
                           .learning_rate = 3e-4,
                           .items = 1 << 20,
                           .items_per_second = 1500.5,
                           .step_seconds = 0.25,
                           .mfu = 0.5,
                           .peak_flops_per_second = 4e11,
                           .memory_bytes = 1'000'000'007});
  writer.write(EvaluationMetrics{.step = 3, .validation_loss = 4.5});
  EXPECT_EQ(without_times(read_text(folder_ / "made" / "too" / "metrics.jsonl")),
            "{\"step\":3,\"loss\":0.1,\"gradient_norm\":2.0,\"learning_rate\":0.0003,\"tokens\":1048576,"
            "\"tokens_per_second\":1500.5,\"step_seconds\":0.25,\"mfu\":0.5,\"peak_flops_per_second\":400000000000.0,"
            "\"memory_bytes\":1000000007}\n"
            "{\"step\":3,\"validation_loss\":4.5}\n");
}

TEST_F(Metrics, LossesOfSeveralDatasetsAreAnObjectByTheirNames) {
  const EvaluationMetrics written{
      .step = 3, .validation_loss = 4.5, .by_dataset = {{"data/b", 5.25}, {"a \"quoted\", é", 4}}};
  {
    MetricsWriter writer(folder_, 0, of_text);
    writer.write(written);
    writer.write(EvaluationMetrics{.step = 4, .validation_loss = 4, .by_dataset = {{"a", 2}, {"b", std::nan("")}}});
  }
  EXPECT_EQ(without_times(read_text(file())),
            "{\"step\":3,\"validation_loss\":4.5,\"validation_loss_by_dataset\":{\"data/b\":5.25,\"a "
            "\\\"quoted\\\", é\":4.0}}\n"
            "{\"step\":4,\"validation_loss\":4.0,\"validation_loss_by_dataset\":{\"a\":2.0,\"b\":null}}\n");
  const RunMetrics metrics = read_metrics(folder_);
  EXPECT_EQ(metrics.evaluations.at(3), written);
  EXPECT_TRUE(std::isnan(metrics.evaluations.at(4).by_dataset.back().loss));
}

TEST_F(Metrics, FiguresOfSeveralDatasetsAreAnObjectForEachFigure) {
  const MetricNames names{.items = "cells", .evaluation_figures = {"rmse", "bias"}};
  const EvaluationMetrics written{
      .step = 1, .validation_loss = 4, .by_dataset = {{"a", 3, {1.5, -1}}, {"b", 5, {2.5, 2}}}, .figures = {2, 0.5}};
  {
    MetricsWriter writer(folder_, 0, {.datasets = {"a", "b"}, .names = names});
    writer.write(StepMetrics{.step = 1});
    writer.write(written);
  }
  const std::string text = read_text(file());
  EXPECT_NE(text.find("\"validation_rmse\":2.0,"), std::string::npos) << text;
  EXPECT_NE(text.find("\"validation_bias_by_dataset\":{\"a\":-1.0,\"b\":2.0}"), std::string::npos) << text;
  const RunMetrics read = read_metrics(folder_);
  EXPECT_EQ(read.names.evaluation_figures, names.evaluation_figures);
  EXPECT_TRUE(read.names.figures.empty());
  EXPECT_EQ(read.evaluations.at(1), written);
}

// A run that an earlier version began has such lines.
TEST_F(Metrics, LinesOfEarlierVersionsAreRead) {
  std::filesystem::create_directories(folder_);
  std::ofstream(file()) << "{\"step\":3,\"validation_loss\":4.5,\"validation_loss_by_corpus\":{\"a\":5.0,\"b\":4.0}}\n"
                           "{\"step\":6,\"validation_loss\":4.0,\"validation_perplexity\":54.6}\n";
  const RunMetrics read = read_metrics(folder_);
  ASSERT_EQ(read.evaluations.size(), 2u);
  EXPECT_EQ(read.evaluations.at(3).by_dataset.back().dataset, "b");
  EXPECT_EQ(read.evaluations.at(3).by_dataset.back().loss, 4);
  EXPECT_TRUE(std::isnan(read.evaluations.at(3).figures.at(0)));
  EXPECT_EQ(read.evaluations.at(6).figures.at(0), 54.6);
}

TEST_F(Metrics, NumbersThatAreNotFiniteAreNull) {
  MetricsWriter writer(folder_, 0, of_text);
  writer.write(StepMetrics{.step = 1,
                           .loss = std::numeric_limits<double>::quiet_NaN(),
                           .gradient_norm = std::numeric_limits<double>::infinity()});
  const Json line = lines().at(0);
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["gradient_norm"].is_null());
  EXPECT_TRUE(line["mfu"].is_null());
  EXPECT_EQ(line["learning_rate"], 0.0);
}

TEST_F(Metrics, AResumedRunHasEachStepOnce) {
  {
    MetricsWriter first(folder_, 0, of_text);
    write_steps(first, 1, 5);
    first.write(EvaluationMetrics{.step = 5, .validation_loss = 2});
    write_steps(first, 6, 8);
    first.write(EvaluationMetrics{.step = 8, .validation_loss = 1});
  }
  MetricsWriter second(folder_, 5, of_text);
  EXPECT_EQ(steps(), (std::vector<int64_t>{1, 2, 3, 4, 5, 5}));
  EXPECT_EQ(lines().back()["validation_loss"], 2.0);
  write_steps(second, 6, 7);
  second.sync();
  EXPECT_EQ(steps(), (std::vector<int64_t>{1, 2, 3, 4, 5, 5, 6, 7}));
}

TEST_F(Metrics, NothingIsRewrittenWhereNothingIsCut) {
  {
    MetricsWriter writer(folder_, 0, of_text);
    write_steps(writer, 1, 3);
  }
  const auto inode = [this] {
    struct stat status {};
    stat(file().c_str(), &status);
    return status.st_ino;
  };
  const auto before = inode();
  MetricsWriter same(folder_, 3, of_text);
  EXPECT_EQ(inode(), before);
  MetricsWriter cut(folder_, 2, of_text);
  EXPECT_NE(inode(), before);  // another file took its place at once
}

TEST_F(Metrics, ANewRunBeginsWithAnEmptyFile) {
  { MetricsWriter(folder_, 0, of_text).write(StepMetrics{.step = 1}); }
  MetricsWriter again(folder_, 0, of_text);
  EXPECT_TRUE(steps().empty());
}

// Cut off at every byte of the last line, the file reads well after a restart, and no temporary file stays.
TEST_F(Metrics, ALastLineThatWasCutOffIsRepaired) {
  {
    MetricsWriter writer(folder_, 0, of_text);
    write_steps(writer, 1, 2);
  }
  const std::string whole = read_text(file());
  const size_t second_line = whole.find('\n') + 1;
  for (size_t length = second_line + 1; length < whole.size(); ++length) {
    std::ofstream(file(), std::ios::trunc) << whole.substr(0, length);
    MetricsWriter writer(folder_, 2, of_text);
    const bool complete = length == whole.size() - 1;  // only the line's end is missing
    ASSERT_EQ(steps(), complete ? (std::vector<int64_t>{1, 2}) : (std::vector<int64_t>{1})) << length;
    writer.write(StepMetrics{.step = 3});
    ASSERT_EQ(steps().back(), 3) << length;
  }
  const auto entries = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(Metrics, UnreadableLinesInTheMiddleAreRemoved) {
  std::filesystem::create_directories(folder_);
  std::ofstream(file()) << "{\"step\":1,\"loss\":1.0}\n"
                        << std::string(5, '\0') << "\n[2]\n{\"loss\":3}\n{\"step\":\"4\"}\n\n"
                        << "{\"step\":2,\"loss\":0.5}\n";
  MetricsWriter writer(folder_, 9, of_text);
  EXPECT_EQ(steps(), (std::vector<int64_t>{1, 2}));
}

TEST_F(Metrics, LossesAreReadBackForTheCurve) {
  {
    MetricsWriter writer(folder_, 0, of_text);
    writer.write(StepMetrics{.step = 1, .loss = 9});
    writer.write(StepMetrics{.step = 2, .loss = std::numeric_limits<double>::quiet_NaN()});
    writer.write(EvaluationMetrics{.step = 2, .validation_loss = 8});
    writer.write(StepMetrics{.step = 3, .loss = 7});
  }
  std::ofstream(file(), std::ios::app) << "{\"step\":4,\"lo";
  const LossHistory history = read_losses(folder_);
  using Points = std::vector<std::pair<double, double>>;
  EXPECT_EQ(history.training, (Points{{1, 9}, {3, 7}}));
  EXPECT_EQ(history.validation, (Points{{2, 8}}));
  EXPECT_THROW(read_losses(folder_ / "none"), UserError);
}

TEST_F(Metrics, EveryFieldIsReadBack) {
  const StepMetrics written{.step = 3,
                            .loss = 0.1,
                            .gradient_norm = 2,
                            .learning_rate = 3e-4,
                            .items = 1 << 20,
                            .items_per_second = 1500.5,
                            .step_seconds = 0.25,
                            .mfu = 0.5,
                            .peak_flops_per_second = 4e11,
                            .memory_bytes = 1'000'000'007};
  {
    MetricsWriter writer(folder_, 0, of_text);
    writer.write(written);
    writer.write(StepMetrics{.step = 4});
  }
  const RunMetrics metrics = read_metrics(folder_);
  ASSERT_EQ(metrics.steps.size(), 2u);
  EXPECT_EQ(metrics.steps.at(3), written);
  EXPECT_TRUE(std::isnan(metrics.steps.at(4).mfu));
  EXPECT_TRUE(metrics.evaluations.empty());
}

TEST_F(Metrics, EveryLineHasTheTimeOfTheClockAndOlderLinesAreRead) {
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  const double before = now();
  {
    MetricsWriter writer(folder_, 0, of_text);
    writer.write(StepMetrics{.step = 1});
    writer.write(EvaluationMetrics{.step = 1});
  }
  std::string older;
  for (Json line : lines()) {
    EXPECT_GE(line.at("time").get<double>(), before - 0.001);  // a line has whole milliseconds
    EXPECT_LE(line.at("time").get<double>(), now());
    line.erase("time");
    line["step"] = 2;
    older += line.dump() + '\n';
  }
  std::ofstream(file(), std::ios::app) << older;
  EXPECT_EQ(read_metrics(folder_).steps.size(), 2u);
  EXPECT_EQ(read_metrics(folder_).evaluations.size(), 2u);
  EXPECT_TRUE(read_metrics(folder_).names.figures.empty());
}

// A step's line without each of its keys in turn, and with each of another type: neither is read, nothing is made up.
TEST_F(Metrics, LinesThatLackAKeyAreLeftOut) {
  { MetricsWriter(folder_, 0, of_text).write(StepMetrics{.step = 1}); }
  const Json whole = lines().at(0);
  std::ofstream stream(file(), std::ios::app);
  for (const auto& [key, _] : whole.items()) {
    if (key == "time") continue;  // which older versions did not write
    Json line = whole;
    line["step"] = 2;
    line.erase(key);
    stream << line.dump() << '\n';
    line[key] = "text";
    stream << line.dump() << '\n';
  }
  stream << "{\"step\":2}\n{\"step\":2,\"validation_loss\":[1]}\n";
  for (const char* corpora : {"3", "[3]", "null", "{\"a\":\"3\"}"}) {
    stream << "{\"step\":2,\"validation_loss\":1,\"validation_loss_by_corpus\":" << corpora << "}\n";
  }
  stream << std::flush;
  EXPECT_EQ(read_metrics(folder_).steps.size(), 1u);
  EXPECT_TRUE(read_metrics(folder_).evaluations.empty());
}

TEST_F(Metrics, LinesThatTheDiskRefusesWaitAndAreNotLost) {
  MetricsWriter writer(folder_, 0, of_text);
  write_steps(writer, 1, 2);
  {
    // The limit lies in the middle of the third line, so that a part of it is written.
    const FileSizeLimit limit(std::filesystem::file_size(file()) * 5 / 4);
    write_steps(writer, 3, 5);
    writer.sync();
    EXPECT_EQ(read_metrics(folder_).steps.size(), 2u);
  }
  write_steps(writer, 6, 6);
  EXPECT_EQ(steps(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  {
    const FileSizeLimit limit(1);
    write_steps(writer, 7, 7);
    EXPECT_EQ(lines().size(), 6u);
  }
  { const MetricsWriter closed = std::move(writer); }
  EXPECT_EQ(steps(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(Metrics, LastOfSeveralEvaluationsOfAStepCounts) {
  {
    MetricsWriter writer(folder_, 0, of_text);
    for (double loss : {8.0, 7.0}) writer.write(EvaluationMetrics{.step = 2, .validation_loss = loss});
    writer.write(EvaluationMetrics{.step = 4, .validation_loss = 6});
  }
  EXPECT_EQ(read_losses(folder_).validation, (std::vector<std::pair<double, double>>{{2, 7}, {4, 6}}));
}

}  // namespace
}  // namespace terrace::observe
