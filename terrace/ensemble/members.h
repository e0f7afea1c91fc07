// The members of an ensemble: training runs whose models predict together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::ensemble {

struct MembersRequest {
  std::vector<std::string> configs = {};   // files
  std::vector<std::string> settings = {};  // "section.key=value", of all members
  int64_t seeds = 0;                       // of each configuration: train.seed, train.seed + 1, ..; 0: one
  // The results.csv of a search, or its folder, of which the best trials give members: the one configuration with the
  // values of their parameters. "": none.
  std::string results = {};
  int64_t best = 0;
  std::filesystem::path folder = {};  // of the ensemble
};

struct Member {
  std::string name = {};                   // "member_1"
  std::string origin = {};                 // what it is made of, for people: "gnn.toml, seed 2"
  config::Config config = {};              // its checkpoint.folder is the member's folder in the ensemble's
  std::vector<std::string> settings = {};  // by which the configuration differs from its file
};

// Throws UserError with every problem: no configuration, fewer than two members, several configurations together with a
// search's results, trials that are fewer than asked for, parameters that are no keys, what a configuration's file has.
std::vector<Member> members_of(const MembersRequest& request);

struct BestTrial {
  std::string number = {};                 // as the search numbers its trials; of other tables that of the row, from 0
  std::vector<std::string> settings = {};  // the values of its parameters
};

// The best finished trials with settings different from each other, the best one first. `path` is a results.csv or its
// folder. Throws UserError as members_of does.
std::vector<BestTrial> best_trials(const std::filesystem::path& path, int64_t best);

}  // namespace terrace::ensemble
