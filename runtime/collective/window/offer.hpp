// A rank's offer: its call and arrays, as other processes read them.

#pragma once

#include "runtime/collective/call.hpp"
#include "runtime/collective/window/shared_memory.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The pointer is valid in the rank's own process only.
struct window_array {
  const void* at = nullptr;
  std::int64_t bytes = 0;
  shared_place place = {};  ///< place where others can map it
};

struct window_offer {
  std::string what = {};
  std::int64_t elements = 0;
  int detail = 0;
  std::size_t parts = 0;
  bool cuts_are_own = false;
  std::vector<std::int64_t> ends = {};
  std::vector<window_array> arrays = {};  ///< the parts, then `to` if others read it

  /// The result refers to this object's text and ends.
  collective_call call() const;
};

window_offer offer_of(const collective_call& call, std::vector<window_array> arrays);

/// An offer has 9 words, one per rank and five per array, up to this maximum.
inline constexpr std::size_t most_words_of_offer = 1000, words_of_head = 9;
inline constexpr std::ptrdiff_t words_of_array = 5;
/// The most arrays of an offer among so many ranks.
constexpr std::int64_t most_arrays_of_offer(std::int64_t ranks) {
  return (std::int64_t(most_words_of_offer - words_of_head) - ranks) / words_of_array;
}

std::vector<std::int64_t> words_of(const window_offer& x);
/// Empty if `words` is not a valid offer.
std::optional<window_offer> offer_in(std::span<const std::int64_t> words);

}  // namespace troupe::runtime
