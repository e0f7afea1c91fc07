// Checks that a configuration's layout trains correctly on this machine: a small model like the configuration's is
// trained on several ranks and compared bit for bit with plain data parallelism, and by its error with one rank.
// docs/verify.md says what is compared and why.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json_fwd.h"
#include "terrace/comm/comm.h"
#include "terrace/comm/mpi/mpi.h"
#include "terrace/config/config.h"

namespace terrace::verify {

struct VerifyOptions {
  int64_t ranks = 0;  // ranks as threads; 0: the fewest, from two, that the layout and the batch fit
  // If not null, the ranks are the `ranks` processes of a launch, of which `ranks_here` are on this machine. All call
  // verify() and get the verdict.
  std::shared_ptr<comm::MpiLibrary> processes = {};
  int64_t ranks_here = 0;
  int64_t steps = 3;
  // The number of seeds, from that of the configuration on, over which errors are taken: the errors of one seed and a
  // small tensor are a matter of luck.
  int64_t seeds = 8;
  // Wraps the world through which only the runs with the configured layout communicate, so that tests can make a call
  // go wrong; if empty, the world is not wrapped.
  std::function<std::unique_ptr<comm::World>(comm::World&)> decorate = {};
};

// A key that was reduced or set, with both values as TOML.
struct KeyChange {
  std::string key, from, to;
};

// The tensors of each parameter that are compared, after every step.
enum class ComparedTensor { gradient, weight, first_moment, second_moment };
inline constexpr std::array<const char*, 4> compared_names = {"gradient", "weight", "first_moment", "second_moment"};

// The difference between two tensors that should be the same bit for bit.
struct Difference {
  int64_t elements = 0;  // the number of elements whose bits differ
  double largest = 0;    // absolute; NaN if a number is not finite in one tensor

  void add(const Difference& other);
};

// Distances from runs in double precision, in the Euclidean norm over elements, steps and seeds.
struct ErrorPair {
  double ours = 0, one_rank = 0;
  double rounding = 0;  // the error of rounding the exact result once to its own type, which no result can avoid

  bool holds() const { return ours <= 2 * one_rank + rounding; }  // false for a NaN
  double ratio() const {
    return ours / (one_rank + rounding / 2);
  }  // at most 2 if it holds; NaN for 0 / 0, see holds()
};

struct TensorVerdict {
  std::string name;
  int64_t segment = 0;                    // of the model, see schedule/partition.h
  std::array<Difference, 4> differences;  // by ComparedTensor
  std::array<ErrorPair, 4> errors;
};

// The first difference from plain data parallelism, in the order of execution.
struct Divergence {
  int64_t step = 0;
  int64_t segment = -1;      // of the model; -1: not in a single segment
  std::string segment_name;  // "blocks.1"
  int64_t rank = -1;         // -1: in a sum or a tensor of all ranks
  int64_t micro_batch = -1;  // -1: of the whole step
  std::string operation;     // "reduce gradients"
  std::string tensor;        // the parameter's name; "" if none
  std::string what;          // all of the above as one sentence
};

struct Verdict {
  int64_t ranks = 0, steps = 0, sequences = 0;  // the samples of a step, such as sequences
  std::string samples_name = {};                // what the family calls them
  int64_t seeds = 0;                            // over which the errors are taken
  std::string layout;                           // "zero3, prefetch 1"
  std::vector<KeyChange> changes;
  std::vector<std::string> notes;
  std::vector<TensorVerdict> tensors;
  Difference losses, norms;
  ErrorPair loss_error;  // over micro-batches; the norm's error is bounded by the gradients' errors
  std::optional<Divergence> divergence;

  bool bitwise() const;   // nothing differs from plain data parallelism
  bool accurate() const;  // no error is more than twice that of one rank
  bool holds() const { return bitwise() && accurate(); }
};

// Throws UserError if the layout or the batch does not fit the ranks. Sets the program to one thread for each rank.
Verdict verify(const config::Config& config, const VerifyOptions& options);

std::string text(const Verdict& verdict);
Json json(const Verdict& verdict);

}  // namespace terrace::verify
