// The optimizer states of all ranks together: what they begin with, how they are handed round, and whole tensors of
// them.
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

// Each rank has filled the elements of the masters, and with `moments` of both moments, that it alone answers for:
// hands them to the others that hold them, rounds the masters into the weights and starts to gather these.
void spread_states(Sharded& sharded, optim::AdamW& optimizer, bool moments);

// Gives every rank its part of the initial values under the seed, each computed by one rank, and spreads them.
void set_initial_values(Sharded& sharded, optim::AdamW& optimizer, uint64_t seed);

// Copies the elements that this rank answers for out of `tensor_of` each state into the whole tensors of the parameters
// in fp32, by name; those that are not there yet begin as zeros.
void place_own_elements(const std::vector<nn::Parameter*>& parameters, optim::AdamW& optimizer,
                        const std::function<at::Tensor(const optim::AdamW::State&)>& tensor_of,
                        std::map<std::string, at::Tensor>& whole);

}  // namespace terrace::parallel
