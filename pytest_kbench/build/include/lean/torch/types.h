// Stands before torch's own header of this name: what kernels use of it, without what they do not. See kbench/lean.h.
#ifndef KBENCH_TORCH_TYPES_H
#define KBENCH_TORCH_TYPES_H

#include <kbench/lean.h>
#include <kbench_named.h>

#endif
