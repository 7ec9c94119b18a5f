// Records the choices of a simulated run, turn by turn: always as a hash, on request as text.

#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::actors::simulation {

class turn_trace {
 public:
  enum class kind : std::uint8_t { actor, fiber, timer, event };

  /// `to` receives each line; null: only the hash is kept.
  explicit turn_trace(std::function<void(std::string_view)> to = {}) : to_(std::move(to)) {}

  /// `text` describes the turn; called only if there is a trace.
  template <class Text>
  void add(std::uint64_t turn, std::uint64_t ns, kind what, std::uint64_t who, Text text) {
    for (const auto x : {ns, std::uint64_t(what), who})
      hash_ = (hash_ ^ x) * 0x100000001b3U + (hash_ >> 29);
    if (to_)
      to_(fmt::format("{:6} {:12} ns  {}\n", turn, ns, std::string(text())));
  }
  /// Adds a remark, outside the hash.
  void note(std::string_view text) {
    if (to_)
      to_(fmt::format("# {}\n", text));
  }

  bool has_text() const { return bool(to_); }
  std::uint64_t hash() const { return hash_; }

 private:
  std::function<void(std::string_view)> to_;
  std::uint64_t hash_ = 0xcbf29ce484222325U;
};

}  // namespace troupe::actors::simulation
