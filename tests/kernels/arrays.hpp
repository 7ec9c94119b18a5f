// The arrays of one operation under test, by name: drawn, poisoned, guarded and counted, in the
// memory of whichever backend computes.
//
// The judge's arrays are drawn first, in double but for what every type has in float or whole
// numbers, and rounded to the type under test; all others take their numbers from them. So the
// judge computes on the same inputs, and what differs is the operation's error alone.

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

/// Where a backend computes.
class tested_memory {
 public:
  virtual ~tested_memory() = default;
  /// Aligned to 64 bytes.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  virtual void write(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void read(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
};

tested_memory& host_memory();

/// Numbers of an array, drawn one after the other.
struct draw {
  std::int64_t n;
  std::function<double(std::mt19937&)> next;
};
draw normal_numbers(std::int64_t n);
draw positive_numbers(std::int64_t n);  ///< squares of normal ones
draw zeros_and_ones(std::int64_t n);    ///< every third is 0
/// Normal ones, and zeros of either sign, what is not a number, the smallest that float has.
draw numbers_and_zeros(std::int64_t n);
draw whole_numbers(std::int64_t n, std::int64_t below);
draw numbers_of_64_bits(std::int64_t n);  ///< whole; a double holds 53 of them
draw listed(std::vector<double> values);
template <class T>
draw listed(const std::vector<T>& values) {
  return listed(std::vector<double>(values.begin(), values.end()));
}

/// What an element is, of any array.
enum class scalar : std::uint8_t { f32, f64, bf16, f16, i32, i64, u32, u64 };
template <class T>
scalar scalar_of();

/// One array.
struct array {
  enum class role : std::uint8_t { input, output, changed };
  std::string name;
  scalar type;
  role is;
  std::int64_t n;
  std::int64_t moved;  ///< elements that bytes_moved() counts
  double units
      = 0;          ///< error that is allowed, in roundings of float relative to the largest result
  double size = 0;  ///< of what results are the difference of, where that is larger
  std::int64_t products = 0;  ///< of two elements in each of its sums, in a matrix product
  bool gelu_slope = false;    ///< times the slope of GELU by tanh, in that product
  std::shared_ptr<std::byte> memory;
  std::byte* begin;
};

class arrays {
 public:
  /// The judge's, for operations that are tested in `type`.
  arrays(std::uint32_t seed, kernels::element_type type) : seed_(seed), tested_(type) {}
  /// In other memory, each `shift` elements after an aligned address, with the judge's numbers.
  /// `in_place`: results by name, each with whose place it takes.
  arrays(tested_memory& memory,
         const arrays& judge,
         std::size_t shift,
         std::map<std::string, std::string> in_place = {})
      : memory_(&memory), judge_(&judge), shift_(shift), in_place_(std::move(in_place)) {}
  arrays(const arrays&) = delete;
  arrays& operator=(const arrays&) = delete;

  // Of a name that is there already, its array in its new role.

  /// Read.
  template <class T>
  const T* in(const std::string& name, const draw& numbers) {
    return reinterpret_cast<const T*>(make(name, scalar_of<T>(), array::role::input, numbers));
  }
  /// Written; poisoned until then. `units`: see array.
  template <class T>
  T* out(const std::string& name, std::int64_t n, double units, double size = 0) {
    return reinterpret_cast<T*>(
        make(name, scalar_of<T>(), array::role::output, {n, nullptr}, units, size));
  }
  /// Added to, or written in part: read and written.
  template <class T>
  T* changed(const std::string& name, const draw& numbers, double units, double size = 0) {
    return reinterpret_cast<T*>(
        make(name, scalar_of<T>(), array::role::changed, numbers, units, size));
  }
  /// bytes_moved() counts so many elements of it, not all.
  void counts(const std::string& name, std::int64_t elements) { find(name)->moved = elements; }
  /// How a matrix product makes it: a backend may be less exact there than `units` says.
  void multiplied(const std::string& name, std::int64_t products, bool gelu_slope = false) {
    find(name)->products = products;
    find(name)->gelu_slope = gelu_slope;
  }
  /// In host memory, for as long as the arrays live: pieces, and arrays of pointers.
  template <class T>
  const T* on_host(std::vector<T> values) {
    auto kept = std::make_shared<std::vector<T>>(std::move(values));
    kept_.push_back(kept);
    return kept->data();
  }

  const std::vector<std::unique_ptr<array>>& all() const { return all_; }
  /// Null where there is none; of a result that was written in another's place, that one's.
  array* find(const std::string& name) const;
  std::vector<std::byte> bytes(const array& of) const;
  std::vector<double> values(const array& of) const;
  void set(const array& of, const std::vector<double>& values);
  /// Results in double as the type under test has them.
  void round_results();
  /// What bytes_moved() should say.
  std::int64_t moved() const;
  /// Empty, or the array beside which something was written.
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
