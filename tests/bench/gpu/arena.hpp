// Device memory for one timed operation, filled with random numbers: zeros and constants would run
// faster than real data.

#pragma once

#include "runtime/device/stream.hpp"

#include <algorithm>
#include <any>
#include <cstdint>
#include <random>
#include <vector>

namespace troupe::bench {

/// Normal random numbers on the device. Arrays are filled from different offsets of them.
class numbers {
 public:
  numbers(runtime::stream& stream, std::size_t count);

  template <class T>
  const std::byte* of() const {
    return (sizeof(T) == 4 ? wide_ : narrow_).get();
  }
  std::size_t count() const { return count_; }

 private:
  std::size_t count_;
  runtime::memory_block wide_, narrow_;
};

/// Allocates arrays, which live as long as the arena.
class arena {
 public:
  arena(runtime::stream& stream, const numbers& from, std::uint32_t seed)
      : stream_(stream), from_(from), random_(seed) {}

  runtime::stream& stream() { return stream_; }
  std::size_t bytes() const { return bytes_; }

  template <class T>
  T* empty(std::int64_t n) {
    blocks_.push_back(stream_.allocate(std::size_t(n) * sizeof(T)));
    bytes_ += std::size_t(n) * sizeof(T);
    return reinterpret_cast<T*>(blocks_.back().get());
  }

  /// Normal random numbers.
  template <class T>
  T* drawn(std::int64_t n) {
    auto* const out = empty<T>(n);
    const auto all = std::size_t(n);
    for (std::size_t done = 0; done < all;) {
      const std::size_t begin = random_() % (from_.count() / 2);
      const auto piece = std::min(all - done, from_.count() - begin);
      stream_.copy(out + done, from_.of<T>() + begin * sizeof(T), piece * sizeof(T));
      done += piece;
    }
    return out;
  }

  /// Copies an array of the host.
  template <class T>
  T* filled(const std::vector<T>& x) {
    auto* const out = empty<T>(std::int64_t(x.size()));
    stream_.write(out, x.data(), x.size() * sizeof(T));
    return out;
  }

  template <class T>
  T* constant(std::int64_t n, T value) {
    auto* const out = empty<T>(n);
    const std::vector<T> some(std::size_t(std::min<std::int64_t>(n, 1 << 20)), value);
    stream_.write(out, some.data(), some.size() * sizeof(T));
    for (auto done = std::int64_t(some.size()); done < n;) {
      const auto piece = std::min(n - done, done);
      stream_.copy(out + done, out, std::size_t(piece) * sizeof(T));
      done += piece;
    }
    return out;
  }

  /// Random integers in [0, below).
  std::int32_t* below(std::int64_t n, std::int64_t below) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(n));
    for (auto& x : out)
      x = std::int32_t(random_() % std::uint64_t(below));
    return filled(out);
  }

  /// 0, 1, ... for each sequence.
  std::int32_t* positions(std::int64_t n, std::int64_t length) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = std::int32_t(i % std::size_t(length));
    return filled(out);
  }

  /// Host memory, kept as long as the arena.
  template <class T>
  const T* kept(std::vector<T> x) {
    auto shared = std::make_shared<std::vector<T>>(std::move(x));
    const T* const out = shared->data();
    host_.emplace_back(std::move(shared));
    return out;
  }

 private:
  runtime::stream& stream_;
  const numbers& from_;
  std::mt19937 random_;
  std::vector<runtime::memory_block> blocks_;
  std::vector<std::any> host_;
  std::size_t bytes_ = 0;
};

}  // namespace troupe::bench
