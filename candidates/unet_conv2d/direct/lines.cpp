#include "lines.h"

namespace lines {

void add(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void add_scaled(float factor, const float* from, int64_t stride, float* to, int64_t count) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i * stride];
  }
}

}  // namespace lines
