// Choices that a run makes at its start for all its ranks: threads, the peak, kernels and the route of movements.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/machine/machine.h"
#include "terrace/ops/kernel_choice.h"
#include "terrace/run/run_training.h"
#include "terrace/train/trainer.h"

namespace terrace::run {

// The inputs of the choices; must not outlive the objects that its members refer to.
struct RunInputs {
  const config::Config& config;
  const RunOptions& options;
  const checkpoint::Reader* resumed;  // null: a new run
};

// The number of threads of each rank. A resumed run keeps its number, so that it continues bit for bit, unless the
// configuration gives a number or the number of ranks has changed. `launched` is the world that a launcher made.
int64_t threads_of_rank(const RunInputs& inputs, int64_t ranks, const comm::World* launched = nullptr);

// The peak that the resumed run had, if it computed on as many threads and ranks of the same processor; else the rate
// that all ranks measure. The process has `threads` threads a rank from here on. The first function is for ranks that
// are threads, the second for ranks that are processes, which all call it together.
train::Peak choose_peak(const RunInputs& inputs, int64_t threads, const at::Device& device);
train::Peak choose_peak(const RunInputs& inputs, int64_t threads, const at::Device& device, comm::Comm& all);

// The kernels that the resumed run had; else those that are chosen on the first rank, for all ranks.
ops::KernelChoice choose_kernels(const RunInputs& inputs, const at::Device& device);
ops::KernelChoice choose_kernels(const RunInputs& inputs, const at::Device& device, comm::Comm& all);

// The machine that a prediction of the run's steps is for, if the configuration asks for one.
std::optional<machine::Machine> predicted_machine(const RunInputs& inputs, const at::Device& device,
                                                  comm::World& world);

// The configuration with the route of movements and the way in which rails gather weights: those of the configuration,
// or what is predicted to be faster on the first rank's machine. Called by all ranks together.
config::Config with_route(const RunInputs& inputs, const std::optional<machine::Machine>& machine, comm::World& world);

}  // namespace terrace::run
