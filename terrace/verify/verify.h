// Whether a configuration's layout trains as it should here: a small model like the configuration's is trained on
// several ranks, and compared to the last bit with plain data parallelism, and by error with one rank.
// docs/verify.md says what is compared and why.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/json.h"
#include "terrace/comm/comm.h"
#include "terrace/comm/mpi/mpi.h"
#include "terrace/config/config.h"

namespace terrace::verify {

struct VerifyOptions {
  int64_t ranks = 0;  // as threads; 0: the fewest, from two, that the layout and the batch fit
  // Or the processes of a launch, `ranks` of them and so many on this machine: all call verify() and get the verdict.
  std::shared_ptr<comm::MpiLibrary> processes = {};
  int64_t ranks_here = 0;
  int64_t steps = 3;
  // What the runs at the configured layout, and they alone, communicate through; the world itself where none is given.
  // For tests, which let a call go wrong.
  std::function<std::unique_ptr<comm::World>(comm::World&)> decorate = {};
};

// A key that was made smaller or set, as TOML.
struct KeyChange {
  std::string key, from, to;
};

// What is compared of each parameter, after every step.
enum class Compared { gradient, weight, first_moment, second_moment };
inline constexpr std::array<const char*, 4> compared_names = {"gradient", "weight", "first_moment", "second_moment"};

// Between two tensors that should be the same to the last bit.
struct Difference {
  int64_t elements = 0;  // whose bits differ
  double largest = 0;    // absolute; NaN where a number is not finite on one side

  void add(const Difference& other);
};

// Distances from a run in double precision, in the Euclidean norm over elements and steps.
struct ErrorPair {
  double ours = 0, one_rank = 0;
  double rounding = 0;  // of the result once to its own type: no result can be asked to be closer

  bool holds() const { return ours <= 2 * one_rank + rounding; }     // false for a NaN
  double ratio() const { return ours / (one_rank + rounding / 2); }  // at most 2 where it holds; 0 / 0: see holds()
};

struct TensorVerdict {
  std::string name;
  int64_t segment = 0;                    // of the model, see schedule/partition.h
  std::array<Difference, 4> differences;  // by Compared
  std::array<ErrorPair, 4> errors;
};

// The first thing, in the order of execution, that is not as in plain data parallelism.
struct Divergence {
  int64_t step = 0;
  int64_t segment = -1;      // of the model; -1: none alone
  std::string segment_name;  // "blocks.1"
  int64_t rank = -1;         // -1: summed or put together over ranks
  int64_t micro_batch = -1;  // -1: of the whole step
  std::string operation;     // "reduce gradients"
  std::string tensor;        // "" where it is none of the parameters
  std::string what;          // a sentence with all of it
};

struct Verdict {
  int64_t ranks = 0, steps = 0, sequences = 0;
  std::string layout;  // "zero3, prefetch 1"
  std::vector<KeyChange> changes;
  std::vector<std::string> notes;
  std::vector<TensorVerdict> tensors;
  Difference losses, norms;
  ErrorPair loss_error;  // over micro-batches; that of the norm is bounded by those of the gradients
  std::optional<Divergence> divergence;

  bool bitwise() const;   // nothing differs from plain data parallelism
  bool accurate() const;  // no error is more than twice that of one rank
  bool holds() const { return bitwise() && accurate(); }
};

// Throws UserError where the layout or the batch do not fit the ranks. Sets one thread a rank for the program.
Verdict verify(const config::Config& config, const VerifyOptions& options);

std::string text(const Verdict& verdict);
Json json(const Verdict& verdict);

}  // namespace terrace::verify
