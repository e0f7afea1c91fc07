// The device on which a rank computes, and its memory.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "terrace/comm/comm.h"
#include "terrace/config/config.h"

namespace terrace::train {

// The device that a configuration asks for; "auto" takes a GPU if the build and the machine have one. The ranks of a
// machine take the GPUs that they see in turn, so one that sees a single GPU takes that one. Throws UserError if "cuda"
// is asked for and there is none.
at::Device choose_device(const std::string& name, int64_t local_rank = 0);
at::Device choose_device(const std::string& name, const comm::World& world);
// Chooses the device of ranks that are threads of this process, which cannot share its GPU. Throws UserError where
// there are several ranks and the device is a GPU; `on_cpu` says how the user asks for the CPU.
at::Device choose_device_of_threads(const std::string& name, int64_t ranks, const std::string& on_cpu);

// The configuration with the device that was chosen for it: a plan, which knows no devices, counts memory by its name.
config::Config on_device(config::Config config, const at::Device& device);

// Lets this process run on the cores nearest to the GPU only, of those that it may use; does nothing for a CPU and
// where there are none. To be called before the process has threads that compute.
void bind_near(const at::Device& device);

// Chooses the rank's device, which its kernels and its communication use from now on. Every rank of the world calls it.
// Throws UserError where two ranks chose one GPU, unless the world's options allow that.
at::Device take_device(const std::string& name, comm::World& world);

// The bytes that the GPU has left.
int64_t available_bytes(const at::Device& gpu);
// The number of times that the process has taken memory from the GPU or returned memory to it, which may wait for all
// work of the GPU; 0 for a CPU.
int64_t memory_calls(const at::Device& device);
// The largest number of bytes that this process has held so far: on a GPU its allocator's, on a CPU the resident ones.
int64_t peak_bytes(const at::Device& device);

}  // namespace terrace::train
