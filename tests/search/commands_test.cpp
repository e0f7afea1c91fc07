// Trials that are commands: their words, their results, their failures, several at a time, and searches that are
// killed.
#include "terrace/search/commands.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/search/search.h"
#include "tests/scratch_folder.h"

namespace terrace::search {
namespace {

class CommandSearch : public testing::Test {
 protected:
  // A search over x = 0 .. 9 with this command.
  static Study study(const std::string& command, const std::string& more = "", const std::string& tables = "") {
    return parse_study("[search]\nevaluator = \"command\"\nobjective = \"score\"\nseed = 3\ncommand = '''" + command +
                           "'''\n" + more + "[parameters.x]\ntype = \"integer\"\nrange = [0, 9]\n" + tables,
                       "space.toml");
  }
  SearchResult run(const Study& one) { return search(one, {.folder = folder_ / "run"}); }

  ScratchFolder folder_;
};

const char* const squares = R"(echo '{"score": '$(( -({x} - 6) * ({x} - 6) ))', "x": '{x}'}' > {result})";

TEST_F(CommandSearch, FindsTheBestOfAllPoints) {
  const Study one = study(squares, "method = \"exhaustive\"\nfigures = [\"x\"]\n");
  const SearchResult result = run(one);
  EXPECT_EQ(result.trials.size(), 10);
  EXPECT_EQ(result.failed(), 0);
  const Trial best = result.best(1).front();
  EXPECT_EQ(best.point, Point{6});
  EXPECT_EQ(best.objectives, std::vector<double>{0});
  EXPECT_EQ(best.outcome.figures, (std::vector<double>{6, 0}));
}

// y exists only where x is 9, the best value.
TEST_F(CommandSearch, HalvesTrialsOfWhichSomeLackAParameter) {
  const Study one = study(R"(echo '{"score": '{x}{y}', "words": '$(set -- {x} {y}; echo $#)'}' > {result})",
                          "method = \"successive_halving\"\nfigures = [\"words\"]\ntrials = 12\n",
                          "[parameters.y]\ntype = \"integer\"\nrange = [0, 2]\nwhen.x = 9\n"
                          "[halving]\nfirst = 1\nmost = 9\n");
  const SearchResult result = run(one);
  EXPECT_EQ(result.count(), 12) << "nine points without y, and three with it";
  EXPECT_EQ(result.failed(), 0);
  std::set<std::pair<Point, int64_t>> parts;
  for (const Trial& trial : result.trials) {
    EXPECT_TRUE(parts.insert({trial.point, trial.budget}).second);
    EXPECT_EQ(trial.point[1] == absent, trial.point[0] != 9);
    EXPECT_EQ(trial.outcome.figures[0], 2) << "an empty word in place of a value that does not exist";
  }
  EXPECT_EQ(result.best(1).front().objectives, std::vector<double>{92});
  EXPECT_EQ(run(one).trials.size(), result.trials.size()) << "a resumed search has nothing left to do";
}

TEST_F(CommandSearch, KnowsEachKindOfFailure) {
  const Study one = study(
      R"(case {x} in 0) echo no disk >&2; exit 3;; 1) echo '{"failure": "too hot"}' > {result};; 2) ;;
         3) echo nonsense > {result};; 4) sleep 60;; 5) kill -9 $$;; 6) echo '{"scores": 1}' > {result};;
         7) echo '{"score": null}' > {result};; *) echo '{"score": '{x}'}' > {result};; esac)",
      "method = \"exhaustive\"\ntrial_time = 3\n");
  const SearchResult result = run(one);
  std::map<int, std::string> failures;
  for (const Trial& trial : result.trials) {
    failures[static_cast<int>(trial.point[0])] = trial.outcome.failure + ": " + trial.outcome.reason;
  }
  EXPECT_EQ(failures[0], "error: exit code 3: no disk");
  EXPECT_EQ(failures[1], "reported: too hot");
  EXPECT_EQ(failures[2], "objective: the command wrote no result; {result} is the path of the file to write");
  EXPECT_EQ(failures[3], "objective: the command's result is no JSON object");
  EXPECT_EQ(failures[4], "time: took longer than 3.00 s");
  EXPECT_EQ(failures[5], "error: was killed by signal 9: ");
  EXPECT_EQ(failures[6], "objective: gave no number \"score\"; it gave scores");
  EXPECT_EQ(failures[7], "objective: gave no number \"score\"");
  EXPECT_EQ(failures[8], ": ");
  EXPECT_EQ(result.failed(), 8);
}

TEST_F(CommandSearch, RefusesAnObjectiveThatNoTrialReturns) {
  const Study one = study(R"(echo '{"points": '{x}'}' > {result})", "method = \"exhaustive\"\n");
  try {
    run(one);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              "no trial gives the objective: trial 0: gave no number \"score\"; it gave points");
  }
}

std::string refusal_of(const std::function<void()>& search) {
  try {
    search();
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST_F(CommandSearch, EndsAtOnceWhereTheProgramCannotBeStarted) {
  for (const char* command : {"./missing.sh {x} {result}", "echo x > {folder}/a; {folder}/a {x} {result}"}) {
    const Study one = study(command, "trials = 8\nparallel = 3\n");
    EXPECT_TRUE(refusal_of([&] { run(one); }).starts_with("the program of trial ")) << command;
    const std::string rows = read_text(folder_ / "run" / "results.csv");
    EXPECT_EQ(std::ranges::count(rows, '\n'), 1) << "no trial counts: " << rows;
    std::filesystem::remove_all(folder_ / "run");
  }
}

// A licence that has run out, not a property of the points.
TEST_F(CommandSearch, EndsWhereTheFirstTenTrialsFailWithTheSameReason) {
  const char* const table = "[parameters.y]\ntype = \"integer\"\nrange = [0, 9]\n";
  const Study same =
      study("date +%H:%M:%S; echo {folder}: no licence; exit 1; {x} {y} {result}", "trials = 40\n", table);
  EXPECT_NE(refusal_of([&] { run(same); }).find("each of the first 10 trials failed with: exit code 1"),
            std::string::npos);
  std::filesystem::remove_all(folder_ / "run");
  const Study different = study("echo x = {x}, y = {y} are bad; exit 1; {result}", "trials = 12\n", table);
  EXPECT_EQ(run(different).failed(), 12);
}

TEST_F(CommandSearch, StopsOnRequestAndGoesOnLater) {
  const char* const settings = "trials = 8\nparallel = 2\nmethod = \"random\"\n";
  const Study one =
      study("[ -e " + (folder_ / "go").string() + " ] || [ {trial} -lt 3 ] || sleep 100; " + squares, settings);
  int64_t finished = 0;
  SearchOptions options{.folder = folder_ / "run"};
  options.progress = [&](const SearchState& state) { finished = static_cast<int64_t>(state.finished.size()); };
  options.stops = [&] { return finished >= 3; };
  const SearchResult stopped = search(one, options);
  EXPECT_EQ(stopped.end, SearchEnd::stopped);
  EXPECT_EQ(stopped.trials.size(), 3) << "what was under way is given up";
  write_text_atomically(folder_ / "go", "");
  const SearchResult rest = run(one);
  EXPECT_EQ(rest.resumed, 3);
  EXPECT_EQ(rest.trials.size(), 8);
}

TEST_F(CommandSearch, RunsSeveralAtATimeAndGathersThemAsTheyEnd) {
  // The first trial is the slowest.
  const Study one = study("[ {trial} = 0 ] && sleep 1; " + std::string(squares), "parallel = 4\ntrials = 8\n");
  const SearchResult result = run(one);
  ASSERT_EQ(result.trials.size(), 8);
  EXPECT_EQ(result.trials.back().job_id, 0);
  std::set<Point> points;
  for (const Trial& trial : result.trials) points.insert(trial.point);
  EXPECT_EQ(points.size(), 8);
}

TEST_F(CommandSearch, FindsTheParetoFront) {
  const Study one = parse_study(
      "[search]\nevaluator = \"command\"\nobjective = [\"up\", \"down\"]\ndirection = [\"maximize\", \"minimize\"]\n"
      "method = \"exhaustive\"\ncommand = '''echo '{\"up\": '{x}', \"down\": '$(( {x} % 4 ))'}' > {result}'''\n"
      "[parameters.x]\ntype = \"integer\"\nrange = [0, 9]\n",
      "space.toml");
  const SearchResult result = run(one);
  std::vector<double> front;
  for (const Trial& trial : result.best(10)) front.push_back(trial.point[0]);
  EXPECT_EQ(front, (std::vector<double>{9, 8}));
  EXPECT_TRUE(read_text(folder_ / "run" / "results.csv").starts_with("p:x,objective_0,objective_1,job_id,"));
  EXPECT_EQ(run(one).resumed, 10);
}

// A job that continues a trial finds what the trial left in its folder.
const char* const steps = R"(echo {budget} >> {folder}/log; echo '{"score": '{x}'}' > {result})";
const char* const halving = "[halving]\nfirst = 1\nmost = 9\n";

TEST_F(CommandSearch, HalvesInTheFoldersOfTheTrials) {
  const Study one = study(steps, "method = \"successive_halving\"\ntrials = 9\n", halving);
  const SearchResult result = run(one);
  std::map<int64_t, int> rows;
  for (const Trial& trial : result.trials) ++rows[trial.budget];
  EXPECT_EQ(rows[1], 9);
  EXPECT_GE(rows[3], 3);
  EXPECT_EQ(rows[9], rows[3] / 3);
  const Trial best = result.best(1).front();
  EXPECT_EQ(best.budget, 9);
  EXPECT_EQ(read_text(folder_ / "run" / "trials" / std::to_string(best.trial) / "log"), "1\n3\n9\n");
}

TEST_F(CommandSearch, ContinuesAfterKillsWithoutLosingOrRepeatingAFinishedTrial) {
  const Study one = study("sleep 0.05; " + std::string(steps),
                          "method = \"successive_halving\"\ntrials = 10\nparallel = 2\n", halving);
  for (int round = 0; round < 5; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      search(one, {.folder = folder_ / "run"});
      ::_exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(150 + 40 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  const SearchResult result = run(one);
  std::map<int64_t, int> rows;
  std::set<std::pair<int64_t, int64_t>> seen;
  for (const Trial& trial : result.trials) {
    EXPECT_TRUE(seen.emplace(trial.trial, trial.budget).second) << trial.trial << " to " << trial.budget << " twice";
    ++rows[trial.budget];
  }
  EXPECT_EQ(rows[1], 10);
  EXPECT_GE(rows[3], 3);
  EXPECT_GE(rows[9], 1);
  EXPECT_EQ(run(one).resumed, static_cast<int64_t>(result.trials.size()));
}

}  // namespace
}  // namespace terrace::search
