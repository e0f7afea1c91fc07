// Forces and stress as derivatives of an energy.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/models/gnn/graphs.h"

namespace terrace::models::gnn {

// In this file E is the number of pairs where the model computes pairs, and vectors are those of their first edges.
//
// The gradient [E, 3] of the sum of the energies by the vectors of the edges, of which they were computed with autograd
// enabled. It can be differentiated again, by the weights; 0 where nothing depends on the vectors.
at::Tensor gradient_by_vectors(const at::Tensor& energies, const at::Tensor& vectors);

// F = -dE / d position, [N, 3]. The vector of an edge is the position of its sender less that of its receiver, so an
// atom's force is the sum of the gradients of the edges that it receives less that of the edges that it sends.
at::Tensor forces_of(const at::Tensor& gradient, const Graphs& graphs);

// dE / d strain over the volume, [B, 9]: the sum over a graph's edges of the symmetric part of g r^T, divided by
// `volumes` [B].
at::Tensor stress_of(const at::Tensor& gradient, const at::Tensor& vectors, const at::Tensor& volumes,
                     const Graphs& graphs);

}  // namespace terrace::models::gnn
