// Lets the processes of a launch agree before anything is built: if one of them finds an error, all of them end, and
// one reports the error.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/comm/comm.h"

namespace terrace::train {

// A user's mistake that all ranks of the launch know of, so that every rank ends without aborting the others. Only the
// rank that reports the mistake has its text; on the other ranks the text is empty.
class Refusal : public UserError {
 public:
  using UserError::UserError;
};

// Called by all ranks of the world. Throws a Refusal on every rank if any rank has a problem; the first rank with a
// problem reports it.
void agree(comm::World& world, const std::optional<UserError>& problem);

// The facts that a start depends on: names such as "optimizer.learning_rate" with their values as text.
using StartFacts = std::vector<std::pair<std::string, std::string>>;

// Called by all members. Throws a Refusal on every member unless all gave the same facts; the first member reports
// every fact that differs, and which ranks have which value. Costs one gather of 16 bytes a member if nothing differs.
void check_same(comm::Comm& all, const StartFacts& facts);

// Checks, as check_same() does, that all ranks have the same facts about files; `all` has the ranks of the world in
// order. So that no file is read by all ranks, the first rank of each node reads for the other ranks of the node that
// have its working folder; `facts` is called on these ranks alone. Costs one more gather of 16 bytes a member.
void check_same_files(comm::Comm& all, int64_t ranks_per_node, const std::function<StartFacts()>& facts);

// Runs a rank's part of the program. An exception ends the other ranks at once with its text and is then rethrown. The
// other ranks do not wait until the objects of this rank are destroyed, which may take long. A Refusal and a Rewind are
// only rethrown, since all ranks know of them.
template <typename Part>
auto abort_on_error(comm::World& world, Part&& part) {
  try {
    return part();
  } catch (const Refusal&) {
    throw;
  } catch (const std::exception& error) {
    world.abort(fmt::format("rank {} failed: {}", world.rank(), error.what()));
    throw;
  }
}

// The text of one member, on every member.
std::string broadcast_text(comm::Comm& all, std::string text, int64_t member, const char* what);

// Runs `act` on the first member alone and returns its result on every member. If `act` throws a UserError, every
// member throws a Refusal.
std::string broadcast_result(comm::Comm& all, const std::function<std::string()>& act);

}  // namespace terrace::train
