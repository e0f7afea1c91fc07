// Judges outputs of a few structures, whose figures are worked out by hand.
#include "terrace/ensemble/judgement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "terrace/ensemble/judgement_page.h"

namespace terrace::ensemble {
namespace {

// Two components for each atom; structure 0 has two atoms, 2 has one, 3 has one, and 1 has no labels.
JudgedOutput of_atoms() {
  return {.name = "forces",
          .is_of_atoms = true,
          .columns = 2,
          .predicted = {.mean = {0, 0, 3, 0, 1, 1, 0, 0}, .deviation = {1, 1, 1, 1, 2, 2, 2, 2}},
          .labels = {1, 0, 0, 0, 1, 6, 0, 0},
          .structures = {0, 0, 0, 0, 2, 2, 3, 3}};
}

TEST(WorstCases, AreOnePerStructureByTheSizeOfTheirErrors) {
  const std::vector<WorstCase> cases = worst_cases(of_atoms(), 2);
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].structure, 2);
  EXPECT_EQ(cases[0].value, 5u);
  EXPECT_EQ(cases[0].atom, 0);
  EXPECT_EQ(cases[0].column, 1);
  EXPECT_EQ(cases[1].structure, 0);
  EXPECT_EQ(cases[1].atom, 1);
  EXPECT_EQ(cases[1].column, 0);
}

TEST(WorstCases, OfWhatIsNotFiniteAreTheFirst) {
  JudgedOutput output = of_atoms();
  output.predicted.mean[7] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<WorstCase> cases = worst_cases(output, 10);
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[0].structure, 3);
  EXPECT_EQ(cases[0].value, 7u);
}

TEST(JudgedOutput, HasTheFiguresOfItsScaleBesideThem) {
  JudgedOutput output = of_atoms();
  EXPECT_FALSE(json_of(output).contains("scaled"));
  output.scale = 3;
  const Json json = json_of(output);
  EXPECT_EQ(json.at("scale"), 3.0);
  EXPECT_EQ(json.at("scaled").at("mae"), json.at("mae"));
  EXPECT_DOUBLE_EQ(json.at("scaled").at("sharpness"), 3 * json.at("sharpness").get<double>());
}

class JudgementPageTest : public ::testing::Test {
 protected:
  Json output(const JudgedOutput& judged) const {
    return judgement_data({.data = "a.xyz",
                           .checkpoints = {"run"},
                           .structures = {{"H2", 2}, {"O", 1}, {"He", 1}, {"Ne", 1}},
                           .outputs = {judged}})
        .at("outputs")
        .at(0);
  }
};

TEST_F(JudgementPageTest, HasTheWorstCasesWithTheirStructures) {
  const Json worst = output(of_atoms()).at("worst");
  ASSERT_EQ(worst.size(), 3u);
  EXPECT_EQ(worst[0], (Json{{"structure", 2},
                            {"formula", "He"},
                            {"atoms", 1},
                            {"label", 6.0},
                            {"prediction", 1.0},
                            {"error", -5.0},
                            {"spread", 2.0},
                            {"atom", 0},
                            {"column", 1}}));
}

TEST_F(JudgementPageTest, DrawsFewValuesAsPointsAndCountsManyInSquares) {
  JudgedOutput few = of_atoms();
  few.labels[0] = std::numeric_limits<double>::infinity();
  const Json points = output(few).at("parity");
  EXPECT_EQ(points.at("points").size(), 7u);
  EXPECT_EQ(points.at("left_out"), 1);
  EXPECT_EQ(points.at("points").at(1), (Json{0.0, 3.0, 1.0, 0}));
  JudgedOutput many;
  for (int i = 0; i < 3000; ++i) {
    many.labels.push_back(i % 3);
    many.predicted.mean.push_back(i % 3 == 2 ? 0 : i % 3);
    many.predicted.deviation.push_back(1);
    many.structures.push_back(0);
  }
  const Json squares = output(many).at("parity");
  EXPECT_EQ(squares.at("least"), 0.0);
  EXPECT_EQ(squares.at("most"), 2.0);
  EXPECT_EQ(squares.at("cells"), (Json{{0, 0, 1000}, {30, 30, 1000}, {59, 0, 1000}}));
}

TEST_F(JudgementPageTest, HasNoCurvesWithoutASpread) {
  JudgedOutput judged = of_atoms();
  judged.scale = 2;
  const Json with = output(judged);
  EXPECT_EQ(with.at("coverage").at("after").size(), 100u);
  EXPECT_EQ(with.at("bins").at("before").size(), 8u);
  judged.predicted.deviation.assign(8, 0);
  EXPECT_TRUE(output(judged).at("coverage").is_null());
  EXPECT_TRUE(output(judged).at("bins").is_null());
}

TEST_F(JudgementPageTest, IsOneFileWithItsData) {
  const std::string page = judgement_page({.data = "</script><b>", .outputs = {JudgedOutput{.name = "energy"}}});
  EXPECT_NE(page.find("<title>Predictions of &lt;/script&gt;&lt;b&gt;</title>"), std::string::npos);
  EXPECT_NE(page.find("showPage(build);"), std::string::npos);
}

}  // namespace
}  // namespace terrace::ensemble
