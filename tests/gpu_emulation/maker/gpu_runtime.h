// Defines what the kernel of the NCCL backend needs of a GPU's maker.
#pragma once

#include "gpu_language.cuh"
