// Half-precision types, and the reductions and the exponential that kernels need, in loops that compilers vectorise.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace floats {

struct half {  // IEEE 754 binary16
  uint16_t bits;
};
struct bfloat16 {
  uint16_t bits;
};

inline float widen(float x) { return x; }

inline float widen(bfloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

// Exponent and mantissa are moved into a float's place and scaled by 2^(127 - 15), which is exact for subnormals too.
inline float widen(half x) {
  const uint32_t magnitude = (x.bits & 0x7fffu) << 13;
  const uint32_t scaled = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t nonfinite = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(scaled | nonfinite | (x.bits & 0x8000u) << 16);
}

inline void narrow(float x, float& to) { to = x; }

// Round to nearest, ties to even.
inline void narrow(float x, bfloat16& to) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const uint32_t nan = bits >> 16 | 0x40u;
  to.bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

// Round to nearest, ties to even; for subnormals by a float addition that puts their last bit in its last place.
inline void narrow(float x, half& to) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t rounded = magnitude < 0x38800000u ? subnormal : normal;  // 2^-14
  rounded = magnitude >= 0x477ff000u ? 0x7c00u : rounded;           // 65520 and up round to infinity
  rounded = magnitude > 0x7f800000u ? 0x7e00u : rounded;
  to.bits = static_cast<uint16_t>(rounded | (bits >> 16 & 0x8000u));
}

inline constexpr int64_t kLanes = 16;    // independent partial results, enough for any vector width
inline constexpr int64_t kBlock = 1024;  // elements summed in float before they go to a double

// The largest of n elements; NaN is passed over (whatever is computed from it with the NaN itself still shows it).
inline float largest(const float* x, int64_t n) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
  for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  for (int64_t j = 1; j < kLanes; ++j) lanes[0] = lanes[j] > lanes[0] ? lanes[j] : lanes[0];
  return lanes[0];
}

// The sum of n elements: short float sums, added up as doubles, so that the error does not grow with n.
inline double sum(const float* x, int64_t n) {
  double total = 0;
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t end = n - start < kBlock ? n : start + kBlock;
    float lanes[kLanes] = {};
    int64_t i = start;
    for (; i + kLanes <= end; i += kLanes)
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] += x[i + j];
    for (; i < end; ++i) lanes[i % kLanes] += x[i];
    for (const float lane : lanes) total += lane;
  }
  return total;
}

// The sum of term(0) to term(n - 1), in double; terms that are products of two floats are exact there.
template <class Term>
double total(int64_t n, Term&& term) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
  for (; i < n; ++i) lanes[i % kLanes] += term(i);
  double total = 0;
  for (const double lane : lanes) total += lane;
  return total;
}

// The sum of squares of n elements, in double: the square of any float is one.
inline double sum_of_squares(const float* x, int64_t n) {
  return total(n, [x](int64_t i) { return double{x[i]} * x[i]; });
}

// e^x for x <= 88, to about one unit in the last place; NaN stays NaN, -infinity gives 0, small results are subnormal.
// x = k ln 2 + r with |r| <= ln 2 / 2 (Cody and Waite), a polynomial for e^r, and 2^k in two factors, so that neither
// leaves the range of normal numbers.
inline float exp(float x) {
  const float bounded = x < -105.0f ? -105.0f : x;  // e^-105 rounds to 0
  const float shifted = bounded * 0x1.715476p0f + 0x1.8p23f;
  const float k = shifted - 0x1.8p23f;
  const float r = (bounded - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f;
  float p = 0x1.9f084ap-13f;
  p = p * r + 0x1.6d8dbap-10f;
  p = p * r + 0x1.111272p-7f;
  p = p * r + 0x1.55548ep-5f;
  p = p * r + 0x1.555554p-3f;
  p = p * r + 0x1.0p-1f;
  p = p * r * r + r;
  const uint32_t power = std::bit_cast<uint32_t>(shifted) - 0x4b400000u;
  const int32_t first = static_cast<int32_t>(power) >> 1;
  const uint32_t second = power - static_cast<uint32_t>(first);
  const float scale = std::bit_cast<float>((static_cast<uint32_t>(first) + 127u) << 23);
  return (p + 1.0f) * scale * std::bit_cast<float>((second + 127u) << 23);
}

}  // namespace floats
