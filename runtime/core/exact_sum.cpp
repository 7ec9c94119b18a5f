#include "runtime/core/exact_sum.hpp"

#include <cmath>
#include <limits>

namespace troupe::runtime {

void exact_sum::add_at(int word, std::uint64_t x) {
  for (; x != 0; ++word) {
    if (word >= words) {
      finite_ = false;
      return;
    }
    auto& to = words_[std::size_t(word)];
    to += x;
    x = to < x ? 1 : 0;
  }
  finite_ = finite_ && (words_.back() >> 62) == 0;
}

exact_sum& exact_sum::operator+=(double x) {
  if (!(x < std::numeric_limits<double>::infinity())) {
    finite_ = false;
    return *this;
  }
  if (x == 0)
    return *this;
  int exponent = 0;
  // 53 bits of mantissa; the lowest is worth 2^(exponent - 53)
  auto mantissa = std::uint64_t(std::ldexp(std::frexp(x, &exponent), 53));
  int shift = exponent - 53 - lowest;
  if (shift < 0) {
    mantissa = shift <= -64 ? 0 : mantissa >> -shift;
    shift = 0;
  }
  const int word = shift / 64, bits = shift % 64;
  add_at(word, mantissa << bits);
  if (bits > 0)
    add_at(word + 1, mantissa >> (64 - bits));
  return *this;
}

exact_sum& exact_sum::operator+=(const exact_sum& x) {
  const auto other = x;  // x may be *this
  for (int w = 0; w < words; ++w)
    add_at(w, other.words_[std::size_t(w)]);
  finite_ = finite_ && other.finite_;
  return *this;
}

double exact_sum::value() const {
  if (!finite_)
    return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (int w = words - 1; w >= 0; --w)
    sum += std::ldexp(double(words_[std::size_t(w)]), lowest + 64 * w);
  return sum;
}

}  // namespace troupe::runtime
