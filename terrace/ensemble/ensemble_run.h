// Trains the members of an ensemble side by side, each as a child `terrace train`. Its folder has for each member
//   member_N.toml    the configuration
//   member_N.log     what the training said
//   member_N/        the run, with its checkpoints
// and ensemble.json, which names them with their states.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/ensemble/members.h"
#include "terrace/ensemble/packing.h"
#include "terrace/plan/target.h"

namespace terrace::ensemble {

enum class MemberState { waiting, running, done, stopped, failed };
std::string_view word_of(MemberState state);

struct MemberProgress {
  MemberState state = MemberState::waiting;
  int64_t step = 0, steps = 0;   // done, and in all
  int64_t ranks = 0;             // on which it was trained last
  double predicted_seconds = 0;  // of all its steps on one place
  std::string reason = {};       // of a failure, with the end of the log
};

struct EnsembleOptions {
  std::filesystem::path folder = {};
  std::string program = {};          // a terrace that can train
  int64_t ranks = 0;                 // that all members together use; 0: as default_ranks() says
  std::string launcher = "threads";  // or "mpirun", "srun"
  plan::Target target = {};          // on which costs are predicted; the number of devices is of no account
  // Called several times a second by the thread of train_ensemble().
  std::function<void(const std::vector<MemberProgress>&)> progress = {};
  std::function<bool()> stops = {};  // true: all members are to write a checkpoint and end
};

// The ranks of a place: as many as the member whose layout needs most has in its model's axes, tensor times pipeline.
int64_t ranks_of_place(const std::vector<Member>& members);
// Returns as many places as there are members, at most the cores of this machine by the threads of a rank, at least one
// place.
int64_t default_ranks(const std::vector<Member>& members);

struct EnsembleResult {
  std::vector<MemberProgress> members = {};
  int64_t ranks = 0;
  PackedMembers packing = {};  // of the members that were not done before
  bool stopped = false;
};

// Members that ensemble.json says are done are left alone, and others continue from their newest checkpoint: the same
// call goes on after any end. A member that fails lets the others go on. Throws UserError with every problem before
// anything is started: ranks that are no multiple of a place's, a layout that does not fit them, a folder that another
// call of this function works on, or that has members whose settings are others and must not change (check_resume()).
EnsembleResult train_ensemble(const std::vector<Member>& members, const EnsembleOptions& options);

// The content of ensemble.json: {"ranks", "greatest_over_mean", "members": [{"name", "origin", "folder", "state",
// "step", "steps", "ranks", "predicted_seconds", "reason"}]}.
Json json_of(const std::vector<Member>& members, const EnsembleResult& result);

// The step of the last line of the run's metrics; 0 where there is none.
int64_t last_step(const std::filesystem::path& run);

}  // namespace terrace::ensemble
