// What tests ask of the stand-in for GPUs beyond the functions of CUDA.
#pragma once

// Waits until all streams of the process are idle, as a GPU does that loads a kernel or returns memory. For a thread
// that is no stream.
void wait_for_all_streams();
