// Refuses derivatives of derivatives of the operations that do not have them: their backward adds to buffers of
// gradients and keeps no graph, so terms would be lost. The layer of linear.h, silu, softplus and the functions
// of segments.h and messages.h have them.
#pragma once

namespace terrace::ops {

// Called at the start of a backward. Throws std::runtime_error that names the operation if torch keeps a graph of this
// backward (create_graph).
void refuse_second_derivative(const char* operation);

}  // namespace terrace::ops
