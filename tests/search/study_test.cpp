// Reads studies, and refuses those with mistakes.
#include "terrace/search/study.h"

#include <gtest/gtest.h>

#include <string>

#include "terrace/base/error.h"
#include "tests/search/small_study.h"

namespace terrace::search {
namespace {

class StudyFile : public testing::Test {
 protected:
  std::string refusal(const std::string& toml) const {
    try {
      parse_study(toml, "space.toml");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  // Of a file with these lines below [search].
  std::string refusal_of(const std::string& rest, const std::string& more = "") const {
    return refusal(search_table(config_, more) + rest);
  }

  ScratchFolder folder_;
  std::string config_ = write_small_config(folder_);
};

TEST_F(StudyFile, ReadsEveryKey) {
  const Study study = parse_study(
      "[search]\nevaluator = \"simulate\"\nobjective = \"tokens_per_second\"\nconfig = \"" + config_ +
          "\"\nmachine = \"frontier\"\nsoftware = \"megatron\"\ndevices = \"8 * nodes\"\nmethod = \"random\"\n"
          "trials = 7\nparallel = 2\nseed = 9\nconstraints = [\"nodes < 4\", \"divides(layout.tensor, model.heads)\"]\n"
          "[parameters.nodes]\ntype = \"integer\"\nrange = [1, 4]\n"
          "[parameters.layout.tensor]\ntype = \"ordered\"\nvalues = [1, 2]\n"
          "[parameters.optimizer.learning_rate]\ntype = \"real\"\nrange = [1e-5, 1e-2]\nlog = true\n"
          "[derived]\ntrain.global_batch = \"per_rank * devices\"\nper_rank = 3\n",
      "space.toml");
  EXPECT_EQ(study.settings.objective, "tokens_per_second");
  EXPECT_FALSE(study.settings.minimizes);
  EXPECT_EQ(study.settings.software, "megatron");
  EXPECT_EQ(study.settings.method, Method::random);
  EXPECT_EQ(study.settings.trials, 7);
  EXPECT_EQ(study.settings.parallel, 2);
  EXPECT_EQ(study.settings.seed, 9);
  ASSERT_EQ(study.space.parameters().size(), 3);
  // Tables are read in alphabetical order: layout.tensor, nodes, optimizer.learning_rate.
  const Point point = {1, 3, 1e-3};
  EXPECT_EQ(study.space.number(point, "train.global_batch"), 72);
  EXPECT_TRUE(study.space.holds_constraints(point));
  EXPECT_FALSE(study.space.holds_constraints({1, 4, 1e-3}));
}

TEST_F(StudyFile, TakesTheDirectionFromTheObjective) {
  EXPECT_TRUE(small_study(folder_).settings.minimizes);
  EXPECT_FALSE(small_study(folder_, "direction = \"maximize\"\n").settings.minimizes);
}

TEST_F(StudyFile, ReportsAllProblemsAtOnce) {
  EXPECT_EQ(
      refusal("[search]\nevaluator = \"simulate\"\nobjective = \"loss\"\nconfig = \"" + config_ +
              "\"\ndevices = \"8 *\"\ntrial = 3\n"
              "[parameters.layout.tensor]\ntype = \"ordered\"\n"
              "[parameters.layout.pipelines]\ntype = \"integer\"\nrange = [8, 1]\n"),
      "6 problems in space.toml:\n"
      "  space.toml:3:13: search.objective = \"loss\" is no figure of a simulated trial; use step_seconds, "
      "tokens_per_second, flops_per_device, mfu, hfu or memory_bytes\n"
      "  space.toml:5:11: search.devices = \"8 *\" is no expression: at character 4: expected a number, a name or "
      "'(', found the end\n"
      "  space.toml:6:1: unknown key search.trial; did you mean trials?\n"
      "  space.toml:8:8: parameters.layout.tensor.type = \"ordered\" needs its values, as in values = [1, 2, 4]\n"
      "  space.toml:9:1: parameters.layout.pipelines is no key of a configuration; did you mean "
      "layout.pipeline?\n"
      "  space.toml:11:9: parameters.layout.pipelines.range = [ 8, 1 ] is empty; write [1, 8]");
}

TEST_F(StudyFile, RefusesAnEmptySpace) {
  EXPECT_EQ(refusal_of(""),
            "space.toml: parameters has no parameter, so the space is empty; add a table such as "
            "[parameters.layout.tensor]");
  EXPECT_EQ(refusal(std::string(small_parameters)), "space.toml: the table [search] is missing");
  EXPECT_EQ(refusal_of("[parameters.layout.tensor]\ntype = \"ordered\"\nvalues = []\n"),
            "space.toml:9:10: parameters.layout.tensor.values = [] is empty, so the parameter has no value; add one");
}

TEST_F(StudyFile, RefusesAContradictorySpace) {
  EXPECT_EQ(refusal_of(small_parameters, "constraints = [\"layout.tensor > 4\"]\n"),
            "space.toml: the constraint \"layout.tensor > 4\" is never true: none of 32 points holds all of them; "
            "change the constraints or the values of the parameters");
  EXPECT_EQ(refusal_of(small_parameters, "constraints = [\"layout.tensor > 2\", \"layout.tensor < 2\"]\n"),
            "space.toml: the constraints contradict each other: none of 32 points holds all of them; change the "
            "constraints or the values of the parameters");
}

TEST_F(StudyFile, RefusesValuesThatTheKeyDoesNotHave) {
  EXPECT_EQ(
      refusal_of("[parameters.layout.sharding]\ntype = \"categorical\"\nvalues = [\"ddp\", \"zero4\"]\n"),
      "space.toml:9:10: parameters.layout.sharding.values = [ \"ddp\", \"zero4\" ] has \"zero4\", but "
      "layout.sharding must be \"ddp\", \"zero1\", \"zero2\", \"zero3\", \"hybrid\", \"node\" or \"three_level\"");
  EXPECT_NE(
      refusal_of("[parameters.layout.tensor]\ntype = \"integer\"\nrange = [0, 4]\n").find("has 0, but layout.tensor"),
      std::string::npos);
}

TEST_F(StudyFile, RefusesNamesThatDoNothing) {
  const std::string parameters = small_parameters;
  EXPECT_EQ(refusal_of(parameters + "[parameters.nodes]\ntype = \"integer\"\nrange = [1, 2]\n"),
            "space.toml:16:1: parameters.nodes has no effect: it is no key, and no expression names it; use it or "
            "remove it");
  EXPECT_EQ(refusal_of(parameters + "[derived]\ntrain.global_batch = \"layout.tensr * 8\"\n"),
            "space.toml:17:22: train.global_batch = \"layout.tensr * 8\" names layout.tensr, which is neither a "
            "parameter nor derived nor a key with a number; did you mean layout.tensor?");
  EXPECT_EQ(refusal_of(parameters + "[derived]\nlayout.tensor = \"2\"\n"),
            "space.toml:17:17: derived.layout.tensor = \"2\" is a parameter too; keep one of the two");
  EXPECT_EQ(refusal_of(parameters + "[derived]\ntrain.steps = \"train.steps + 1\"\n"),
            "space.toml:17:15: train.steps = \"train.steps + 1\" depends on itself; write it with other numbers");
  EXPECT_EQ(
      refusal_of(parameters, "constraints = [\"layout.sharding == 1\"]\n"),
      "space.toml:7:15: search.constraints = [ \"layout.sharding == 1\" ] has \"layout.sharding == 1\", which names "
      "layout.sharding, which is a word such as \"ddp\"; expressions take numbers");
}

TEST_F(StudyFile, RefusesByNameWhatIsNotBuilt) {
  const auto with = [&](std::string toml, const std::string& old_text, const std::string& text) {
    return refusal(toml.replace(toml.find(old_text), old_text.size(), text));
  };
  const std::string whole = search_table(config_) + small_parameters;
  EXPECT_EQ(with(whole, "\"simulate\"", "\"train\""),
            "space.toml:2:13: search.evaluator = \"train\" is not built yet; use \"simulate\"");
  EXPECT_EQ(
      with(whole, "\"step_seconds\"", "[\"mfu\", \"hfu\"]"),
      "space.toml:3:13: search.objective = [ \"mfu\", \"hfu\" ] names several objectives, which are not built yet; "
      "write one as a string");
  EXPECT_EQ(refusal_of(small_parameters, "method = \"successive_halving\"\n"),
            "space.toml:7:10: search.method = \"successive_halving\" is not built yet; use \"bayesian\", \"random\" or "
            "\"exhaustive\"");
  EXPECT_EQ(refusal_of(small_parameters, "command = \"./trial.sh\"\n"),
            "space.toml:7:11: search.command = \"./trial.sh\" is not built yet; remove it");
}

TEST_F(StudyFile, NeedsDevicesAndAConfiguration) {
  const std::string text = "[search]\nevaluator = \"simulate\"\nobjective = \"mfu\"\nconfig = \"" + config_ + "\"\n";
  EXPECT_EQ(refusal(text + small_parameters),
            "space.toml:1:1: search.devices is missing; add to [search] a line such as devices = 8");
  EXPECT_EQ(parse_study(text + small_parameters + "[parameters.devices]\ntype = \"ordered\"\nvalues = [8, 16]\n", "f")
                .space.parameters()
                .size(),
            4);
  EXPECT_NE(
      refusal(search_table("missing.toml") + small_parameters).find("search.config = \"missing.toml\" cannot be read"),
      std::string::npos);
}

}  // namespace
}  // namespace terrace::search
