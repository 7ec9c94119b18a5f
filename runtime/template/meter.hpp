// What a template from a stranger may use, and where it stands when it is refused.

#pragma once

#include "runtime/core/error.hpp"

#include <cstdint>
#include <string>

namespace troupe::runtime::jinja {

/// A template that goes beyond one of these is refused with input_error.
struct limits {
  std::size_t source = std::size_t{1} << 20;  ///< bytes of the template
  std::uint64_t steps = 10'000'000;  ///< expressions, elements and 64ths of bytes looked at
  std::size_t text = std::size_t{256} << 20;   ///< bytes of all texts and lists made on the way
  std::size_t output = std::size_t{64} << 20;  ///< bytes of the result
};

/// Of the tree of a template and of values; and of what is being carried out at once.
inline constexpr int maximum_depth = 200, maximum_calls = 500;

/// One thread, one rendering.
class meter {
 public:
  meter(const std::string& name, const limits& may) : name_(name), may_(may) {}

  int line = 1;  ///< of what is being evaluated

  /// Throws input_error that names the template and the line.
  [[noreturn]] void fail(const std::string& what) const {
    throw input_error("{}, line {}: {}", name_, line, what);
  }

  void step(std::uint64_t count = 1) {
    steps_ += count;
    if (steps_ > may_.steps)
      fail(fmt::format("the template is given up after {} steps: it repeats itself too often",
                       may_.steps));
  }

  /// A text of so many bytes is about to be made.
  void make_text(std::size_t bytes) {
    text_ += bytes;
    if (text_ > may_.text || bytes > may_.text)
      fail_text();
    step(1 + bytes / 64);
  }

  /// So many elements of a list are about to be made.
  void make_elements(std::size_t count) {
    constexpr std::size_t bytes = 40, of_list = 128;
    if (count > may_.text)
      fail_text();
    text_ += of_list + bytes * count;
    if (text_ > may_.text)
      fail_text();
    step(1 + count);
  }

  /// A text of so many bytes is about to be made that is an element of a list.
  void make_part(std::size_t bytes) {
    constexpr std::size_t of_text = 100;
    make_text(bytes + of_text);
  }

  /// The characters of so many bytes are about to be looked at one by one.
  void look_at(std::size_t bytes) { step(1 + bytes / 8); }

  void write(std::size_t before, std::size_t bytes) const {
    if (before + bytes > may_.output)
      fail(fmt::format("the template writes more than {} MiB", may_.output >> 20));
  }

  /// One level deeper while it lives.
  class level {
   public:
    explicit level(meter& of) : of_(of) {
      if (++of_.depth_ > maximum_calls) {
        --of_.depth_;
        of_.fail(fmt::format("more than {} levels within each other", maximum_calls));
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
