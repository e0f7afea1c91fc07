// How the processes of a launch agree before anything is built: what one of them finds wrong all know, and one says.
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

// A mistake of the user's that all ranks of the launch know: they end in good order. On all but the rank that says it
// there is no text.
class Refusal : public UserError {
 public:
  using UserError::UserError;
};

// Called by all ranks of the world. Throws a Refusal on each where one has a problem; the first that has says it.
void agree(comm::World& world, const std::optional<UserError>& problem);

// What a start depends on: names such as "optimizer.learning_rate" with their values as text.
using StartFacts = std::vector<std::pair<std::string, std::string>>;

// Called by all members. Throws a Refusal on each where not all gave the same facts; the first member reports every
// fact that differs, and which ranks have which value. One gather of 16 bytes a member where nothing differs.
void check_same(comm::Comm& all, const StartFacts& facts);

// "rank 3", "ranks 0, 2 and 4 to 7" of ascending numbers.
std::string rank_list(const std::vector<int64_t>& ranks);

// Runs a rank's part. What it throws ends the other ranks with its words at once, before what this rank has is
// destroyed, which may take long; then it is thrown on. A Refusal passes: all ranks know it.
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

// Lets the first rank act and all others know how it went: a text of the first rank's for all. Its UserError is a
// Refusal on every rank.
std::string told_by_first(comm::Comm& all, const std::function<std::string()>& act);

}  // namespace terrace::train
