#include "tests/kernels/arrays.hpp"

#include "kernels/op/bf16.hpp"
#include "kernels/op/f16.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numbers>
#include <stdexcept>

namespace troupe::tests {

namespace {

using kernels::bf16;
using kernels::element_type;
using kernels::f16;

// Address sanitizer detects reads beyond an array only if no guard follows it.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t guard = 0;
#else
constexpr std::size_t guard = 256;
#endif
constexpr std::byte guarded{0xA5};
constexpr std::byte poison{0xFF};  // NaN, and an invalid index

class host final : public tested_memory {
 public:
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    constexpr std::align_val_t lines{64};
    return {static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), lines)),
            [](std::byte* at) { ::operator delete (at, std::align_val_t{64}); }};
  }
  void write(std::byte* to, const std::byte* from, std::size_t bytes) override {
    std::copy_n(from, bytes, to);
  }
  void read(std::byte* to, const std::byte* from, std::size_t bytes) override {
    std::copy_n(from, bytes, to);
  }
};

/// Calls f with a number of the type.
template <class F>
auto visit_scalar(scalar type, F f) {
  switch (type) {
    case scalar::f32:
      return f(float());
    case scalar::f64:
      return f(double());
    case scalar::bf16:
      return f(bf16());
    case scalar::f16:
      return f(f16());
    case scalar::i32:
      return f(std::int32_t());
    case scalar::i64:
      return f(std::int64_t());
    case scalar::u32:
      return f(std::uint32_t());
    case scalar::u64:
      return f(std::uint64_t());
  }
  throw std::logic_error("unknown scalar type");
}

std::size_t size_of(const array& one) {
  return std::size_t(one.n) * bytes_of(one.type);
}

}  // namespace

tested_memory& host_memory() {
  static host one;
  return one;
}

template <>
scalar scalar_of<float>() {
  return scalar::f32;
}
template <>
scalar scalar_of<double>() {
  return scalar::f64;
}
template <>
scalar scalar_of<bf16>() {
  return scalar::bf16;
}
template <>
scalar scalar_of<f16>() {
  return scalar::f16;
}
template <>
scalar scalar_of<std::int32_t>() {
  return scalar::i32;
}
template <>
scalar scalar_of<std::int64_t>() {
  return scalar::i64;
}
template <>
scalar scalar_of<std::uint32_t>() {
  return scalar::u32;
}
template <>
scalar scalar_of<std::uint64_t>() {
  return scalar::u64;
}

namespace {

/// Approximately normal: the sum of six uniform numbers. Never 0, at most 4.25 standard deviations.
/// The logarithms of std::normal_distribution took a quarter of the tester's time.
double normal(std::mt19937& rng) {
  double sum = 0;
  for (int i = 0; i < 3; ++i) {
    const auto two = std::uint32_t(rng());
    sum += double(two >> 16) + double(two & 0xFFFF);
  }
  return ((sum + 0.5) * 0x1p-16 - 3) * std::numbers::sqrt2;
}

}  // namespace

std::size_t bytes_of(scalar type) {
  return visit_scalar(type, [](auto x) { return sizeof(x); });
}

draw normal_numbers(std::int64_t n) {
  return {n, normal};
}
draw positive_numbers(std::int64_t n) {
  return {n, [](std::mt19937& rng) {
            const double x = normal(rng);
            return x * x;
          }};
}
draw zeros_and_ones(std::int64_t n) {
  return {n, [i = 0](std::mt19937&) mutable { return ++i % 3 == 0 ? 0.0 : 1.0; }};
}
draw whole_numbers(std::int64_t n, std::int64_t below) {
  return {n, [below](std::mt19937& rng) { return double(rng() % std::uint64_t(below)); }};
}
draw numbers_and_zeros(std::int64_t n) {
  return {n, [i = 0](std::mt19937& rng) mutable {
            const double x = normal(rng);
            const int at = i++;
            return at % 7 == 0    ? at % 2 == 0 ? 0.0 : -0.0
                   : at % 11 == 5 ? std::numeric_limits<double>::quiet_NaN()
                   : at % 13 == 2 ? 0x1p-149
                                  : x;
          }};
}
draw numbers_of_64_bits(std::int64_t n) {
  return {n, [](std::mt19937& rng) {
            const std::uint64_t high = rng(), low = rng();
            return double((high << 32 | low) >> 11) * 0x1p11;
          }};
}
draw listed(std::vector<double> values) {
  const auto n = std::int64_t(values.size());
  return {n, [values = std::move(values), i = std::size_t(0)](std::mt19937&) mutable {
            return values[i++];
          }};
}

array* arrays::find(const std::string& name) const {
  const auto moved = in_place_.find(name);
  const std::string& wanted = moved == in_place_.end() ? name : moved->second;
  const auto found = std::find_if(
      all_.begin(), all_.end(), [&](const auto& one) { return one->name == wanted; });
  return found == all_.end() ? nullptr : found->get();
}

std::byte* arrays::make(const std::string& name,
                        scalar type,
                        array::role is,
                        const draw& numbers,
                        double units,
                        double size) {
  const bool elsewhere = in_place_.contains(name);
  if (array* const there = find(name)) {
    if (!elsewhere && !(judge_ != nullptr && is == array::role::input)) {
      there->is = is;
      there->units = units;
      there->size = size;
    }
    return there->begin;
  }
  auto one = std::make_unique<array>(
      array{elsewhere ? in_place_[name] : name, type, is, numbers.n, numbers.n, units, size});
  place(*one);
  array& made = *one;
  all_.push_back(std::move(one));
  if (judge_ != nullptr) {
    if (is != array::role::output || elsewhere)
      set(made, judge_->values(*judge_->find(made.name)));
  } else if (is != array::role::output) {
    std::mt19937 rng(seed_ + std::uint32_t(std::hash<std::string>()(name)));
    auto next = numbers.next;
    std::vector<double> drawn(std::size_t(numbers.n));
    for (double& x : drawn)
      x = type == scalar::f64 ? rounded(next(rng)) : next(rng);
    set(made, drawn);
  }
  return made.begin;
}

void arrays::place(array& one) {
  const std::size_t before = guard + shift_ * bytes_of(one.type), bytes = size_of(one);
  std::vector<std::byte> image(before + bytes + guard, guarded);
  std::fill_n(image.begin() + std::ptrdiff_t(before), bytes, poison);
  one.memory = memory_->allocate(image.size());
  memory_->write(one.memory.get(), image.data(), image.size());
  one.begin = one.memory.get() + before;
}

std::vector<std::byte> arrays::bytes(const array& of) const {
  std::vector<std::byte> out(size_of(of));
  memory_->read(out.data(), of.begin, out.size());
  return out;
}

std::vector<double> arrays::values(const array& of) const {
  const auto raw = bytes(of);
  std::vector<double> out(std::size_t(of.n));
  visit_scalar(of.type, [&](auto x) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::memcpy(&x, raw.data() + i * sizeof(x), sizeof(x));
      out[i] = double(x);
    }
  });
  return out;
}

void arrays::set(const array& of, const std::vector<double>& values) {
  std::vector<std::byte> raw(size_of(of));
  visit_scalar(of.type, [&](auto x) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      x = decltype(x)(values[i]);
      std::memcpy(raw.data() + i * sizeof(x), &x, sizeof(x));
    }
  });
  memory_->write(of.begin, raw.data(), raw.size());
}

double arrays::rounded(double x) const {
  switch (tested_) {
    case element_type::f32:
      return double(float(x));
    case element_type::bf16:
      return double(bf16(x));
    case element_type::f16:
      return double(f16(x));
    case element_type::f64:
      break;
  }
  return x;
}

void arrays::round_results() {
  for (const auto& one : all_) {
    if (one->is == array::role::input || one->type != scalar::f64)
      continue;
    auto numbers = values(*one);
    for (double& x : numbers)
      x = rounded(x);
    set(*one, numbers);
  }
}

std::int64_t arrays::moved() const {
  std::int64_t sum = 0;
  for (const auto& one : all_)
    sum += one->moved * std::int64_t(bytes_of(one->type))
           * (one->is == array::role::changed ? 2 : 1);
  return sum;
}

std::string arrays::broken_guard() const {
  for (const auto& one : all_) {
    const auto before = std::size_t(one->begin - one->memory.get()), bytes = size_of(*one);
    std::vector<std::byte> image(before + bytes + guard);
    memory_->read(image.data(), one->memory.get(), image.size());
    const auto whole = [](std::byte x) { return x == guarded; };
    if (!std::all_of(image.begin(), image.begin() + std::ptrdiff_t(before), whole)
        || !std::all_of(image.begin() + std::ptrdiff_t(before + bytes), image.end(), whole))
      return one->name;
  }
  return "";
}

}  // namespace troupe::tests
