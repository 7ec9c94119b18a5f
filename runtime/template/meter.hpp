// The meter of one rendering: limits the work and memory of an untrusted template, and throws
// errors with the current line.

#pragma once

#include "runtime/core/error.hpp"

#include <cstdint>
#include <string>

namespace troupe::runtime::jinja {

/// Beyond one of these limits, a template fails with input_error.
struct limits {
  std::size_t source = std::size_t{1} << 20;  ///< bytes of the template
  std::uint64_t steps = 10'000'000;  ///< expressions, elements and units of 64 bytes processed
  std::size_t text = std::size_t{256} << 20;   ///< bytes of all texts and lists created
  std::size_t output = std::size_t{64} << 20;  ///< bytes of the result
};

/// Maximum depth of syntax trees and values; maximum depth of recursion during evaluation.
inline constexpr int maximum_depth = 200, maximum_calls = 500;

/// Enforces the limits of one rendering; single-threaded. Call the functions before the work that
/// they count.
class meter {
 public:
  meter(const std::string& name, const limits& may) : name_(name), may_(may) {}

  int line = 1;  ///< the line being evaluated

  /// Throws input_error with the template and the line.
  [[noreturn]] void fail(const std::string& what) const {
    throw input_error("{}, line {}: {}", name_, line, what);
  }

  void step(std::uint64_t count = 1) {
    steps_ += count;
    if (steps_ > may_.steps)
      fail(fmt::format("the template takes more than {} steps: it repeats too often", may_.steps));
  }

  /// Counts a new text.
  void make_text(std::size_t bytes) {
    text_ += bytes;
    if (text_ > may_.text || bytes > may_.text)
      fail_text();
    step(1 + bytes / 64);
  }

  /// Counts a new list of `count` elements.
  void make_elements(std::size_t count) {
    constexpr std::size_t bytes = 40, of_list = 128;
    if (count > may_.text)
      fail_text();
    text_ += of_list + bytes * count;
    if (text_ > may_.text)
      fail_text();
    step(1 + count);
  }

  /// Counts a new text that is an element of a list.
  void make_part(std::size_t bytes) {
    constexpr std::size_t of_text = 100;
    make_text(bytes + of_text);
  }

  /// Counts a scan of a text by characters.
  void look_at(std::size_t bytes) { step(1 + bytes / 8); }

  void write(std::size_t before, std::size_t bytes) const {
    if (before + bytes > may_.output)
      fail(fmt::format("the template writes more than {} MiB", may_.output >> 20));
  }

  /// RAII: counts one level of recursion.
  class level {
   public:
    explicit level(meter& of) : of_(of) {
      if (++of_.depth_ > maximum_calls) {
        --of_.depth_;
        of_.fail(fmt::format("more than {} nested levels", maximum_calls));
      }
    }
    ~level() { --of_.depth_; }
    level(const level&) = delete;
    level& operator=(const level&) = delete;

   private:
    meter& of_;
  };

 private:
  [[noreturn]] void fail_text() const {
    fail(fmt::format("the template makes texts and lists of more than {} MiB", may_.text >> 20));
  }

  const std::string& name_;
  const limits may_;
  std::uint64_t steps_ = 0;
  std::size_t text_ = 0;
  int depth_ = 0;
};

}  // namespace troupe::runtime::jinja
