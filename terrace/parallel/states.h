// Fills the optimizer states of all ranks: initial values, exchange between ranks, and copies into whole tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "terrace/optim/adamw.h"
#include "terrace/parallel/sharded.h"

namespace terrace::parallel {

// Sends the elements of the masters that each rank has filled (its own ones) to the ranks that hold copies of them,
// rounds the masters to the weights and begins to gather the weights. With `moments`, both moments are sent too.
void spread_states(Sharded& sharded, optim::AdamW& optimizer, bool moments);

// Computes the initial values for the seed, each element on one rank, and calls spread_states().
void set_initial_values(Sharded& sharded, optim::AdamW& optimizer, uint64_t seed);

// Copies this rank's own elements of `tensor_of` each state into `whole`, the whole fp32 tensors of the parameters by
// name. Missing tensors are created with zeros.
void place_own_elements(const std::vector<nn::Parameter*>& parameters, optim::AdamW& optimizer,
                        const std::function<at::Tensor(const optim::AdamW::State&)>& tensor_of,
                        std::map<std::string, at::Tensor>& whole);

}  // namespace terrace::parallel
