// Arithmetic on lines of floats.
#pragma once

#include <cstdint>

namespace lines {

// to[i] += from[i], for i < count
void add(const float* from, float* to, int64_t count);

// to[i] += factor * from[i * stride], for i < count
void add_scaled(float factor, const float* from, int64_t stride, float* to, int64_t count);

}  // namespace lines
