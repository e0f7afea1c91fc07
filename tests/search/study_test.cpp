// Reads studies, and refuses those with mistakes.
#include "terrace/search/study/study.h"

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
  // The refusal of a file with these lines below [search].
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
  EXPECT_EQ(study.settings.goals.front().figure, "tokens_per_second");
  EXPECT_FALSE(study.settings.goals[0].minimizes);
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
  EXPECT_TRUE(small_study(folder_).settings.goals[0].minimizes);
  EXPECT_FALSE(small_study(folder_, "direction = \"maximize\"\n").settings.goals[0].minimizes);
}

TEST_F(StudyFile, NoiseScaleGivesFiguresByWhichBatchesCompare) {
  const Study study = small_study(folder_, "noise_scale = 96\n");
  EXPECT_EQ(study.noise_scale, 96);
  EXPECT_EQ(study.reference_batch, 24);
  ASSERT_EQ(study.figures.size(), small_study(folder_).figures.size() + 2);
  EXPECT_EQ(study.figures.back(), (TrialFigure{"same_loss_samples", true}));
  EXPECT_NE(refusal_of(small_parameters, "noise_scale = -1\n").find("search.noise_scale = -1 must be above 0"),
            std::string::npos);
  EXPECT_NE(refusal_of(small_parameters, "noise_scale = \"no/run\"\n")
                .find("search.noise_scale = \"no/run\" is neither a number of samples nor the folder of a run"),
            std::string::npos);
  EXPECT_NE(refusal_of(small_parameters, "noise_scale = true\n").find("must be a number of samples or a run's folder"),
            std::string::npos);
  EXPECT_NE(
      refusal("[search]\nevaluator = \"command\"\nobjective = \"a\"\ncommand = \"x {result}\"\nnoise_scale = 9\n" +
              std::string(small_parameters))
          .find("search.noise_scale = 9 has no effect without evaluator = \"simulate\""),
      std::string::npos);
}

TEST_F(StudyFile, ReportsAllProblemsAtOnce) {
  EXPECT_EQ(
      refusal("[search]\nevaluator = \"simulate\"\nobjective = \"loss\"\nconfig = \"" + config_ +
              "\"\ndevices = \"8 *\"\ntrial = 3\n"
              "[parameters.layout.tensor]\ntype = \"ordered\"\n"
              "[parameters.layout.pipelines]\ntype = \"integer\"\nrange = [8, 1]\n"),
      "6 problems in space.toml:\n"
      "  space.toml:3:13: search.objective = \"loss\" is no figure of a simulated trial; use step_seconds, "
      "tokens_per_second, flops_per_device, mfu, hfu, memory_bytes, shortest_seconds, longest_seconds or "
      "median_difference\n"
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

TEST_F(StudyFile, ReadsSeveralObjectivesWithADirectionEach) {
  const std::string text = search_table(config_) + small_parameters;
  const std::string old_text = "\"step_seconds\"";
  const auto with = [&](const std::string& objective) {
    return std::string(text).replace(text.find(old_text), old_text.size(), objective);
  };
  const Study study = parse_study(with("[\"step_seconds\", \"mfu\"]"), "space.toml");
  ASSERT_EQ(study.settings.goals.size(), 2);
  EXPECT_TRUE(study.settings.goals[0].minimizes);
  EXPECT_FALSE(study.settings.goals[1].minimizes);
  EXPECT_EQ(study.goal_values({0.5, 1, 2, 0.25, 4, 5}), (std::vector<double>{-0.5, 0.25}));
  const std::string directions = with("[\"step_seconds\", \"mfu\"]\ndirection = [\"maximize\", \"minimize\"]");
  EXPECT_FALSE(parse_study(directions, "space.toml").settings.goals[0].minimizes);
  EXPECT_EQ(
      refusal(with("[\"step_seconds\"]\ndirection = [\"minimize\", \"minimize\"]")),
      "space.toml:4:13: search.direction = [ \"minimize\", \"minimize\" ] has 2 words for 1 objectives; write one "
      "for each");
}

// The head of a file whose trials are commands, without a configuration.
const char* const command_table = "[search]\nevaluator = \"command\"\nobjective = \"score\"\n";

TEST_F(StudyFile, ReadsCommands) {
  const Study study = parse_study(std::string(command_table) +
                                      "command = \"./trial.sh {x} {twice} {result}\"\nfigures = [\"seconds\"]\n"
                                      "trial_time = \"5m\"\ntrial_memory = \"2 GiB\"\n"
                                      "[parameters.x]\ntype = \"real\"\nrange = [0, 1]\n[derived]\ntwice = \"2 * x\"\n",
                                  "space.toml");
  EXPECT_EQ(study.settings.evaluator, Evaluator::command);
  EXPECT_EQ(study.figures, (std::vector<TrialFigure>{{"seconds"}, {"score"}}));
  EXPECT_FALSE(study.settings.goals[0].minimizes);
  EXPECT_EQ(study.settings.parallel, 1);
  EXPECT_EQ(study.settings.trial_seconds, 300);
  EXPECT_EQ(study.settings.trial_memory, 2.0 * (1 << 30));
}

TEST_F(StudyFile, RefusesCommandsThatCannotWork) {
  const std::string parameters = "[parameters.x]\ntype = \"real\"\nrange = [0, 1]\n";
  const auto refusal_with = [&](const std::string& more) { return refusal(command_table + more + parameters); };
  EXPECT_EQ(refusal_with(""),
            "2 problems in space.toml:\n"
            "  space.toml:1:1: search.command is missing; add to [search] a line such as command = \"./trial.sh "
            "{result}\"\n"
            "  space.toml:4:1: parameters.x has no effect: it is no key, and no expression or command names it; use it "
            "or remove it");
  EXPECT_EQ(refusal_with("command = \"./trial.sh {x}\"\n"),
            "space.toml:4:11: search.command = \"./trial.sh {x}\" does not name {result}, the path of the file into "
            "which it writes its figures");
  EXPECT_EQ(
      refusal_with("command = \"./trial.sh {x} {y} {result}\"\n"),
      "space.toml:4:11: search.command = \"./trial.sh {x} {y} {result}\" names {y}, which is unknown; it may name "
      "result, folder, config, budget, trial or x");
  EXPECT_NE(refusal_with("command = \"./trial.sh {x} {config} {result}\"\n").find("search.config is missing"),
            std::string::npos);
}

TEST_F(StudyFile, RefusesKeysThatItsEvaluatorDoesNotHave) {
  EXPECT_EQ(refusal_of(small_parameters, "command = \"./trial.sh\"\ntrial_time = 3\nlauncher = \"srun\"\n"),
            "3 problems in space.toml:\n"
            "  space.toml:7:11: search.command = \"./trial.sh\" has no effect without evaluator = \"command\"; remove "
            "it\n"
            "  space.toml:8:14: search.trial_time = 3 has no effect without evaluator = \"train\"; remove it\n"
            "  space.toml:9:12: search.launcher = \"srun\" has no effect without evaluator = \"train\"; remove it");
  EXPECT_EQ(refusal_of(small_parameters, "method = \"successive_halving\"\n"),
            "space.toml: the table [halving] is missing");
  const std::string halving = "[halving]\nfirst = 2\n";
  EXPECT_NE(refusal_of(small_parameters + halving).find("halving has no effect without method"), std::string::npos);
}

TEST_F(StudyFile, ReadsSuccessiveHalving) {
  const std::string head = std::string(command_table) + "command = \"./trial.sh {x} {budget} {result}\"\n" +
                           "method = \"successive_halving\"\n[parameters.x]\ntype = \"real\"\nrange = [0, 1]\n";
  const Study study = parse_study(head + "[halving]\nfirst = 2\nmost = 20\n", "space.toml");
  EXPECT_EQ(study.settings.halving.budgets(), (std::vector<int64_t>{2, 6, 18, 20}));
  EXPECT_EQ(refusal(head + "[halving]\nfirst = 2\n"),
            "space.toml:9:1: halving.most is missing; add to [halving] a line such as most = 54");
  EXPECT_EQ(refusal(head + "[halving]\nfirst = 20\nmost = 2\n"),
            "space.toml:11:8: halving.most = 2 must lie above first; write more");
}

TEST_F(StudyFile, KnowsTheFiguresOfTraining) {
  const std::string config = folder_ / "whole.toml";
  write_text_atomically(config, read_text(config_) +
                                    "evaluate_every = 4\n[data]\ntrain = [\"none\"]\n"
                                    "validation_share = 0.1\n[optimizer]\nlearning_rate = 1e-3\n");
  const auto text = [&](const std::string& objective, const std::string& more = "") {
    return "[search]\nevaluator = \"train\"\nobjective = \"" + objective + "\"\nconfig = \"" + config +
           "\"\ndevices = 2\n" + more + small_parameters;
  };
  const Study study = parse_study(text("validation_loss"), "space.toml");
  EXPECT_TRUE(study.settings.goals[0].minimizes);
  EXPECT_EQ(study.figures.size(), 7);
  EXPECT_EQ(
      refusal(text("validation_los")),
      "space.toml:3:13: search.objective = \"validation_los\" is no figure of a trained trial; use "
      "\"validation_loss\", or another of step_seconds, tokens_per_second, mfu, memory_bytes, loss, validation_loss "
      "or validation_perplexity");
  // A figure of the family, with the direction in which it is better.
  EXPECT_EQ(parse_study(text("validation_perplexity"), "space.toml").settings.goals[0].minimizes, true);
  const std::string halving = "method = \"successive_halving\"\n";
  EXPECT_EQ(refusal(text("validation_loss", halving) + "[halving]\nfirst = 2\n"),
            "space.toml:3:13: search.objective = \"validation_loss\" is not known after 2 steps, since "
            "train.evaluate_every = 4; write a divisor of halving.first = 2");
  EXPECT_EQ(parse_study(text("validation_loss", halving) + "[halving]\nfirst = 4\nfactor = 2\n", "space.toml")
                .settings.halving.budgets(),
            (std::vector<int64_t>{4, 8, 10}));
  EXPECT_EQ(refusal(text("loss", halving) + "[halving]\nfirst = 4\nmost = 11\n"),
            "space.toml:18:8: halving.most = 11 is more than train.steps = 10 of " + config);
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
