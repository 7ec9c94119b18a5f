// The header of a message between windows; private to window_exchange.

#pragma once

#include "runtime/collective/window/exchange.hpp"

#include <array>
#include <cstring>

namespace troupe::runtime {

enum class window_verb : std::uint32_t { post = 1, ask, bytes, refusal };

struct window_exchange::message {
  std::array<char, 4> magic = {'T', 'R', 'P', 'X'};
  std::uint32_t version = 2;
  window_verb verb = {};
  std::int32_t rank = 0;
  std::uint64_t process = 0;  ///< sender
  std::uint64_t round = 0;    ///< of a post: rounds so far; otherwise: the offer's round
  std::uint64_t generation = 0;
  std::uint64_t fetch = 0;
  std::uint64_t array = 0;
  std::int64_t begin = 0, bytes = 0;
  std::uint32_t left = 0;
  std::array<char, window_board::most_name + 1> group = {};
  std::array<char, 4> zero = {};

  std::vector<std::byte> header() const {
    std::vector<std::byte> out(sizeof *this);
    std::memcpy(out.data(), this, sizeof *this);
    return out;
  }
};

/// A pending request, guarded by the exchange's mutex. Landing bytes keep it alive.
struct window_exchange::fetch {
  std::uint64_t number = 0;
  std::uint64_t from = 0;  ///< process
  std::string group;
  std::shared_ptr<std::byte[]> place;
  std::size_t bytes = 0;
  bool over = false, refused = false;
};

}  // namespace troupe::runtime
