// What a rank brings to the first meeting of a call, as other processes read it.

#pragma once

#include "runtime/collective/call.hpp"
#include "runtime/collective/window/shared_memory.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Of the rank's own process: nobody else follows the pointer.
struct window_array {
  const void* at = nullptr;
  std::int64_t bytes = 0;
  shared_place place = {};  ///< where others can map it
};

struct window_offer {
  std::string what = {};
  std::int64_t elements = 0;
  int detail = 0;
  std::size_t parts = 0;
  bool cuts_are_own = false;
  std::vector<std::int64_t> ends = {};
  std::vector<window_array> arrays = {};  ///< the parts; after them `to`, where others read it

  /// Lends its own text and ends.
  collective_call call() const;
};

window_offer offer_of(const collective_call& call, std::vector<window_array> arrays);

/// An offer takes 9 words, one for each rank and five for each array: as many at most.
inline constexpr std::size_t most_words_of_offer = 1000;

std::vector<std::int64_t> words_of(const window_offer& x);
/// Empty: these are no words of an offer.
std::optional<window_offer> offer_in(std::span<const std::int64_t> words);

}  // namespace troupe::runtime
