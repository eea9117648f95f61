// verdict: binding
// A plain function that nothing exports.
#include <cstdint>

void relu(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] < 0 ? 0 : x[i];
}
