#include "runtime/checkpoint/compare.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace troupe::runtime {
namespace {

double distance(float x, float y) {
  if (std::isnan(x) || std::isnan(y))
    return std::isnan(x) && std::isnan(y) ? 0 : std::numeric_limits<double>::infinity();
  return std::abs(double(x) - double(y));
}

/// One box of a tensor on both sides.
class box_comparison {
 public:
  box_comparison(const checkpoint_reader& a, const checkpoint_reader& b, std::string_view name)
      : a_(a),
        b_(b),
        name_(name),
        element_(size_of(a.type(name))),
        floats_(is_readable_as_f32(a.type(name)) && is_readable_as_f32(b.type(name))),
        one_type_(a.type(name) == b.type(name)) {
    if (!one_type_ && !floats_)
      throw input_error(
          "cannot compare tensor '{}': it is {} in one checkpoint and {} in the other",
          name,
          to_string(a.type(name)),
          to_string(b.type(name)));
  }

  /// Bytes per side.
  std::size_t bytes_of_element() const { return floats_ ? sizeof(float) : element_; }

  void add(const box& part, tensor_difference& to) {
    const auto n = std::size_t(part.size());
    if (one_type_ && equal_bytes(part, n * element_))
      return;
    if (!floats_) {
      for (std::size_t i = 0; i < n; ++i)
        to.different
            += std::memcmp(&bytes_a_[i * element_], &bytes_b_[i * element_], element_) != 0;
      return;
    }
    x_.resize(n);
    y_.resize(n);
    a_.read(name_, part, x_);
    b_.read(name_, part, y_);
    for (std::size_t i = 0; i < n; ++i)
      if (std::bit_cast<std::uint32_t>(x_[i]) != std::bit_cast<std::uint32_t>(y_[i])) {
        ++to.different;
        to.largest = std::max(to.largest.value_or(0), distance(x_[i], y_[i]));
      }
  }

 private:
  bool equal_bytes(const box& part, std::size_t size) {
    bytes_a_.resize(size);
    bytes_b_.resize(size);
    a_.read_bytes(name_, part, bytes_a_);
    b_.read_bytes(name_, part, bytes_b_);
    return bytes_a_ == bytes_b_;
  }

  const checkpoint_reader &a_, &b_;
  std::string_view name_;
  std::size_t element_;
  bool floats_, one_type_;
  std::vector<std::byte> bytes_a_, bytes_b_;
  std::vector<float> x_, y_;
};

}  // namespace

tensor_difference compare(const checkpoint_reader& a,
                          const checkpoint_reader& b,
                          std::string_view name,
                          const std::function<void(std::int64_t)>& advance,
                          std::size_t memory) {
  const auto all = whole(a.extents(name));
  ensure(a.extents(name) == b.extents(name), "COMPARE-1: tensors that are compared have one shape");
  box_comparison boxes(a, b, name);
  tensor_difference out{.elements = all.size()};
  // Each side holds the bytes and the floats of one box.
  const auto step = std::max<std::int64_t>(std::int64_t(memory / boxes.bytes_of_element() / 2), 1);
  for (std::int64_t begin = 0; begin < all.size(); begin += step) {
    const auto end = std::min(all.size(), begin + step);
    for (const auto& part : boxes_of_range(all, begin, end))
      boxes.add(part, out);
    if (advance)
      advance(end - begin);
  }
  return out;
}

}  // namespace troupe::runtime
