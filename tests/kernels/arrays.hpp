// Arrays of one operation under test, by name: filled with random numbers, poisoned, guarded and
// counted, in the memory of the tested backend.
//
// The reference's arrays are drawn first. They are double, except arrays that are float or integer
// in every type, and their inputs are rounded to the type under test. All other arrays copy these
// numbers, so differences in the results come from the operation alone.

#pragma once

#include "kernels/op/registry.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace troupe::tests {

/// The memory of a tested backend.
class tested_memory {
 public:
  virtual ~tested_memory() = default;
  /// Aligned to 64 bytes.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  virtual void write(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void read(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
};

tested_memory& host_memory();

/// A generator of an array's numbers.
struct draw {
  std::int64_t n;
  std::function<double(std::mt19937&)> next;
};
draw normal_numbers(std::int64_t n);
draw positive_numbers(std::int64_t n);  ///< squares of normal numbers
draw zeros_and_ones(std::int64_t n);    ///< every third is 0
/// Normal numbers, zeros of both signs, NaN and the smallest positive float.
draw numbers_and_zeros(std::int64_t n);
draw whole_numbers(std::int64_t n, std::int64_t below);
draw numbers_of_64_bits(std::int64_t n);  ///< integers; a double represents 53 bits of them
draw listed(std::vector<double> values);
template <class T>
draw listed(const std::vector<T>& values) {
  return listed(std::vector<double>(values.begin(), values.end()));
}

/// The element type of an array.
enum class scalar : std::uint8_t { f32, f64, bf16, f16, i32, i64, u32, u64 };
template <class T>
scalar scalar_of();

struct array {
  enum class role : std::uint8_t { input, output, changed };
  std::string name;
  scalar type;
  role is;
  std::int64_t n;
  std::int64_t moved;  ///< elements counted by bytes_moved()
  double units
      = 0;          ///< error that is allowed, in roundings of float relative to the largest result
  double size = 0;  ///< if results are differences of larger operands: their size
  std::int64_t products = 0;  ///< for matrix products: terms per sum
  bool gelu_slope = false;    ///< for matrix products: multiplied by the slope of tanh GELU
  std::shared_ptr<std::byte> memory;
  std::byte* begin;
};

class arrays {
 public:
  /// The reference's arrays for an operation that is tested in `type`.
  arrays(std::uint32_t seed, kernels::element_type type) : seed_(seed), tested_(type) {}
  /// Arrays in `memory` with the reference's numbers, each `shift` elements after an aligned
  /// address. `in_place` maps a result to the input whose array it overwrites.
  arrays(tested_memory& memory,
         const arrays& judge,
         std::size_t shift,
         std::map<std::string, std::string> in_place = {})
      : memory_(&memory), judge_(&judge), shift_(shift), in_place_(std::move(in_place)) {}
  arrays(const arrays&) = delete;
  arrays& operator=(const arrays&) = delete;

  // An existing name returns its array, in the new role.

  /// An input.
  template <class T>
  const T* in(const std::string& name, const draw& numbers) {
    return reinterpret_cast<const T*>(make(name, scalar_of<T>(), array::role::input, numbers));
  }
  /// An output, poisoned until written. `units`: see array.
  template <class T>
  T* out(const std::string& name, std::int64_t n, double units, double size = 0) {
    return reinterpret_cast<T*>(
        make(name, scalar_of<T>(), array::role::output, {n, nullptr}, units, size));
  }
  /// Read and written: accumulated, or written in part.
  template <class T>
  T* changed(const std::string& name, const draw& numbers, double units, double size = 0) {
    return reinterpret_cast<T*>(
        make(name, scalar_of<T>(), array::role::changed, numbers, units, size));
  }
  /// bytes_moved() counts this many elements of the array instead of all.
  void counts(const std::string& name, std::int64_t elements) { find(name)->moved = elements; }
  /// Marks a result of a matrix product, which a backend may compute less exactly than `units`.
  void multiplied(const std::string& name, std::int64_t products, bool gelu_slope = false) {
    find(name)->products = products;
    find(name)->gelu_slope = gelu_slope;
  }
  /// Keeps pieces or arrays of pointers in host memory while this object lives.
  template <class T>
  const T* on_host(std::vector<T> values) {
    auto kept = std::make_shared<std::vector<T>>(std::move(values));
    kept_.push_back(kept);
    return kept->data();
  }

  const std::vector<std::unique_ptr<array>>& all() const { return all_; }
  /// Null if absent. For an in-place result: the array that it overwrites.
  array* find(const std::string& name) const;
  std::vector<std::byte> bytes(const array& of) const;
  std::vector<double> values(const array& of) const;
  void set(const array& of, const std::vector<double>& values);
  /// Rounds double results to the type under test.
  void round_results();
  /// The expected value of bytes_moved().
  std::int64_t moved() const;
  /// Name of an array with writes beyond its bounds; else empty.
  std::string broken_guard() const;

 private:
  std::byte* make(const std::string& name,
                  scalar type,
                  array::role is,
                  const draw& numbers,
                  double units = 0,
                  double size = 0);
  void place(array& one);
  double rounded(double x) const;

  tested_memory* memory_ = &host_memory();
  const arrays* judge_ = nullptr;
  std::uint32_t seed_ = 0;
  kernels::element_type tested_ = kernels::element_type::f64;
  std::size_t shift_ = 0;
  std::map<std::string, std::string> in_place_;
  std::vector<std::unique_ptr<array>> all_;
  std::vector<std::shared_ptr<const void>> kept_;
};

std::size_t bytes_of(scalar type);

}  // namespace troupe::tests
