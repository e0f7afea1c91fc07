// Workers of one folder: who may join, what they see of each other, and what happens to what a worker leaves undone.
#include "terrace/search/workers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/search/search.h"
#include "tests/search/small_study.h"

namespace terrace::search {
namespace {

using testing::HasSubstr;

class WorkersOfAFolder : public testing::Test {
 protected:
  std::string refusal(const Study& study, bool joins) const {
    try {
      const Workers workers(path_, study, joins);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  void append(const std::string& line) const { std::ofstream(path_ / "claims.jsonl", std::ios::app) << line; }
  // A worker of another host that has begun job 7.
  void add_foreign_worker() const {
    std::ofstream(path_ / "workers" / "far-1-0") << "far 1 99 another-kernel\n";
    append(
        "{\"worker\":\"far-1-0\",\"host\":\"far\",\"process\":1}\n"
        "{\"claim\":7,\"trial\":7,\"budget\":0,\"of\":\"far-1-0\",\"point\":[\"2\",\"ddp\",\"1\"]}\n");
  }
  void stop_heartbeat_of_foreign_worker() const {
    const timespec long_ago = {.tv_sec = time(nullptr) - 600, .tv_nsec = 0};
    const timespec times[2] = {long_ago, long_ago};
    ASSERT_EQ(utimensat(AT_FDCWD, (path_ / "workers" / "far-1-0").c_str(), times, 0), 0);
  }
  static Trial ended(const TrialJob& job) {
    return {.job_id = job.id,
            .point = job.point,
            .objectives = {-0.1},
            .outcome = {.figures = {0.1, 2, 3, 0.4, 0.5, 6, 0.05, 0.2, 0.04}},
            .trial = job.trial};
  }

  ScratchFolder folder_;
  Study study_ = small_study(folder_);
  std::filesystem::path path_ = folder_ / "run";
};

const TrialJob first = {.id = 0, .trial = 0, .point = {1, 0, 0}}, second = {.id = 1, .trial = 1, .point = {2, 1, 0}};

TEST_F(WorkersOfAFolder, RefusesASecondWorkerUnlessItJoins) {
  const Workers one(path_, study_, false);
  EXPECT_THAT(refusal(study_, false),
              testing::MatchesRegex("another search works in .*run \\(process [0-9]+ on .*\\); wait for its end, use "
                                    "another --output, or work on it together with --join"));
  EXPECT_EQ(refusal(study_, true), "");
}

TEST_F(WorkersOfAFolder, JoinOnlyTheSameSearch) {
  const Workers one(path_, study_, true);
  EXPECT_THAT(refusal(small_study(folder_, "method = \"random\"\n"), true),
              HasSubstr("--join works on the search that is under way in " + path_.string() +
                        ", which has 'method = automatic' where this one has 'method = random'; start it with the same "
                        "file and --method, or use another --output"));
  EXPECT_THAT(refusal(small_study(folder_, "constraints = [\"layout.tensor < 4\"]\n"), true),
              HasSubstr("where this one has 'constraint layout.tensor < 4'"));
  const std::string config = (folder_ / "small.toml").string();
  EXPECT_THAT(
      refusal(parse_study(search_table(config) + small_parameters + "[derived]\ntrain.steps = 20\n", "a"), true),
      HasSubstr("train.steps = 20"));
  // Each worker may have its own values of these keys.
  EXPECT_EQ(refusal(small_study(folder_, "trials = 5\nseed = 7\nparallel = 3\n"), true), "");
}

TEST_F(WorkersOfAFolder, SeeWhatTheOthersBeginAndFinish) {
  Workers one(path_, study_, true), two(path_, study_, true);
  EXPECT_FALSE(one.found_others());
  EXPECT_TRUE(two.found_others());
  {
    const Workers::Turn turn = one.take_turn();
    EXPECT_EQ(one.next_job(), 0);
    one.begin(first);
    EXPECT_EQ(one.trials_elsewhere(), 0);
  }
  {
    const Workers::Turn turn = two.take_turn();
    EXPECT_EQ(two.count(), 2);
    EXPECT_EQ(two.next_job(), 1);
    EXPECT_EQ(two.trials_elsewhere(), 1);
    EXPECT_TRUE(two.is_working_elsewhere());
    EXPECT_TRUE(two.is_begun_elsewhere(first.point));
    EXPECT_FALSE(two.is_begun_elsewhere(second.point));
    const std::vector<TrialJob> begun = two.take_begun();
    ASSERT_EQ(begun.size(), 1);
    EXPECT_EQ(begun[0].point, first.point);
    EXPECT_TRUE(two.take_begun().empty());
    EXPECT_EQ(two.take_over(), std::nullopt) << "its worker is alive";
    two.begin(second);
  }
  {
    const Workers::Turn turn = one.take_turn();
    EXPECT_TRUE(one.has(0));
    EXPECT_FALSE(one.has(1));
    one.finish(ended(first));
  }
  const Workers::Turn turn = two.take_turn();
  EXPECT_EQ(two.trials_elsewhere(), 0);
  const std::vector<Trial> finished = two.take_finished();
  ASSERT_EQ(finished.size(), 1);
  EXPECT_EQ(finished[0].point, first.point);
  EXPECT_TRUE(two.take_finished().empty());
}

TEST_F(WorkersOfAFolder, TakeOverWhatOneThatLeavesHasBegun) {
  Workers one(path_, study_, true);
  {
    Workers two(path_, study_, true);
    const Workers::Turn turn = two.take_turn();
    two.begin(first);
    two.begin({.id = 5, .trial = 3, .point = second.point, .budget = 9});  // continues trial 3
  }
  {
    const Workers::Turn turn = one.take_turn();
    const std::optional<TrialJob> again = one.take_over(), rest = one.take_over();
    ASSERT_TRUE(again && rest);
    EXPECT_EQ(again->point, first.point);
    EXPECT_EQ(again->id, 6);
    EXPECT_EQ(again->trial, 6) << "in a folder of its own";
    EXPECT_EQ(rest->id, 7);
    EXPECT_EQ(rest->trial, 3) << "where its first part lies";
    EXPECT_EQ(rest->budget, 9);
    EXPECT_EQ(one.take_over(), std::nullopt);
    EXPECT_TRUE(one.has(6) && one.has(7));
    EXPECT_TRUE(one.leave());
  }
  EXPECT_FALSE(std::filesystem::exists(path_ / "claims.jsonl")) << "the last one removes what only workers need";
  EXPECT_FALSE(std::filesystem::exists(path_ / "workers"));
}

TEST_F(WorkersOfAFolder, StoppedHeartbeatMeansDeathOnAnotherHost) {
  std::optional<Workers> one(std::in_place, path_, study_, true);
  add_foreign_worker();
  {
    const Workers::Turn turn = one->take_turn();
    EXPECT_EQ(one->count(), 2);
    EXPECT_EQ(one->take_over(), std::nullopt);
  }
  one.reset();
  EXPECT_TRUE(std::filesystem::exists(path_ / "claims.jsonl")) << "the other worker goes on";
  EXPECT_THAT(refusal(study_, false), HasSubstr("(process 1 on far)"));
  one.emplace(path_, study_, true);
  stop_heartbeat_of_foreign_worker();
  std::this_thread::sleep_for(std::chrono::milliseconds(5100));  // the dead are looked for every five seconds
  const Workers::Turn turn = one->take_turn();
  EXPECT_EQ(one->count(), 1);
  const std::optional<TrialJob> job = one->take_over();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->point, (Point{1, 0, 0}));
  EXPECT_EQ(job->id, 8);
}

TEST_F(WorkersOfAFolder, DeadWorkersLeaveTheFolderToANewSearch) {
  { const Workers one(path_, study_, true); }
  std::filesystem::create_directories(path_ / "workers");
  {
    const Workers one(path_, study_, true);
    add_foreign_worker();
    stop_heartbeat_of_foreign_worker();
  }
  EXPECT_EQ(refusal(study_, false), "");
}

// The process of the worker was suspended, and the others went on without it.
TEST_F(WorkersOfAFolder, RejoinsAfterBeingTakenForDead) {
  Workers one(path_, study_, true);
  {
    const Workers::Turn turn = one.take_turn();
    one.begin(first);
  }
  const std::string text = read_text(path_ / "claims.jsonl");
  const size_t name = text.find("\"worker\":\"") + 10;
  append("{\"left\":\"" + text.substr(name, text.find('"', name) - name) + "\",\"reason\":\"has died\"}\n");
  {
    const Workers::Turn turn = one.take_turn();
    EXPECT_FALSE(one.has(0));
    EXPECT_EQ(one.count(), 1);
    one.begin(second);
  }
  std::filesystem::remove(path_ / "claims.jsonl");  // the last of the others has left
  const Workers::Turn turn = one.take_turn();
  EXPECT_FALSE(one.has(1));
  EXPECT_EQ(one.count(), 1);
}

TEST_F(WorkersOfAFolder, RemoveATornLineAndRefuseADamagedOne) {
  Workers one(path_, study_, true);
  append("{\"claim\":7,\"tri");  // its writer was killed
  {
    const Workers::Turn turn = one.take_turn();
    EXPECT_EQ(one.next_job(), 0);
    one.begin(first);
  }
  EXPECT_EQ(refusal(study_, true), "");
  append("{\"claim\":7}\n");
  EXPECT_THAT(refusal(study_, true),
              HasSubstr("claims.jsonl has a damaged line: {\"claim\":7}; remove the file once no "
                        "search works in its folder"));
}

// Workers as threads of one process.
class SharedSearch : public testing::Test {
 protected:
  // Each of three workers makes trials until all are done.
  std::vector<SearchResult> run(const Study& study, const std::string& output) {
    std::vector<SearchResult> results(3);
    {
      std::vector<std::jthread> threads;
      for (SearchResult& result : results) {
        threads.emplace_back([&] { result = search(study, {.folder = folder_ / output, .joins = true}); });
      }
    }
    return results;
  }
  static void expect_shared(const std::vector<SearchResult>& results, size_t rows) {
    int64_t elsewhere = 0;
    for (const SearchResult& result : results) {
      EXPECT_EQ(result.trials.size(), rows) << "each knows the trials of all";
      std::set<std::pair<Point, int64_t>> points;
      std::set<int64_t> jobs;
      for (const Trial& trial : result.trials) {
        EXPECT_TRUE(points.insert({trial.point, trial.budget}).second) << "no point twice";
        EXPECT_TRUE(jobs.insert(trial.job_id).second);
      }
      elsewhere += result.by_others + result.resumed;
    }
    EXPECT_EQ(elsewhere, 2 * static_cast<int64_t>(rows)) << "each trial was made by one of the three";
  }

  ScratchFolder folder_;
};

TEST_F(SharedSearch, AnyMethodMakesEachTrialOnce) {
  for (const char* method : {"bayesian", "random", "exhaustive"}) {
    SCOPED_TRACE(method);
    const std::string more = fmt::format("method = \"{}\"\ntrials = 20\nparallel = 2\n", method);
    expect_shared(run(small_study(folder_, more), method), 20);
  }
}

TEST_F(SharedSearch, SeveralObjectivesMakeEachTrialOnce) {
  const std::string config = write_small_config(folder_);
  std::string text = search_table(config, "method = \"bayesian\"\ntrials = 20\n") + small_parameters;
  const std::string one = "objective = \"step_seconds\"";
  text.replace(text.find(one), one.size(), "objective = [\"step_seconds\", \"memory_bytes\"]");
  expect_shared(run(parse_study(text, "space.toml"), "run"), 20);
}

TEST_F(SharedSearch, TriesEveryPointOfASmallSpaceOnce) {
  const std::vector<SearchResult> results = run(small_study(folder_, "trials = 100\n"), "run");
  expect_shared(results, 32);
}

TEST_F(SharedSearch, HalvesTrialsOfAllWorkers) {
  const Study study = parse_study(
      "[search]\nevaluator = \"command\"\nobjective = \"score\"\nmethod = \"successive_halving\"\ntrials = 12\n"
      "command = '''echo '{\"score\": '$(( {x} * 10 + {budget} ))'}' > {result}'''\n"
      "[parameters.x]\ntype = \"integer\"\nrange = [0, 99]\n[halving]\nfirst = 1\nmost = 9\n",
      "space.toml");
  const std::vector<SearchResult> results = run(study, "run");
  expect_shared(results, results[0].trials.size());
  std::map<int64_t, int> at_budget;
  for (const Trial& trial : results[0].trials) ++at_budget[trial.budget];
  EXPECT_EQ(at_budget[1], 12);
  EXPECT_GE(at_budget[3], 4) << "the best third at least, as one worker promotes";
  EXPECT_GE(at_budget[9], 1);
}

}  // namespace
}  // namespace terrace::search
