// Shape of a tensor.

#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace troupe::runtime {

/// Extents, outermost first; at most four. A scalar has none.
class shape {
 public:
  shape() = default;
  shape(std::initializer_list<std::int64_t> extents) {
    for (const auto x : extents)
      push_back(x);
  }

  void push_back(std::int64_t extent) { extents_.at(std::size_t(rank_++)) = extent; }

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return extents_.at(std::size_t(i)); }
  const std::int64_t* begin() const { return extents_.data(); }
  const std::int64_t* end() const { return extents_.data() + rank_; }

  std::int64_t size() const {
    std::int64_t n = 1;
    for (const auto x : *this)
      n *= x;
    return n;
  }

  friend bool operator==(const shape&, const shape&) = default;

  template <class Inspector>
  friend typename Inspector::result_type inspect(Inspector& f, shape& x) {
    return f(x.extents_, x.rank_);
  }

 private:
  std::array<std::int64_t, 4> extents_ = {};
  std::int32_t rank_ = 0;
};

inline std::string to_string(const shape& x) {
  std::string text = "(";
  for (int i = 0; i < x.rank(); ++i)
    text += (i ? ", " : "") + std::to_string(x[i]);
  return text + ")";
}

}  // namespace troupe::runtime
