// Sends a message through its bytes, as if it crossed a process boundary.

#pragma once

#include "messages/core/type_ids.hpp"
#include "runtime/core/error.hpp"

#include <caf/abstract_actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/make_message.hpp>
#include <caf/message.hpp>

#include <fmt/format.h>
#include <utility>
#include <vector>

namespace troupe::messages {

/// Finds handles that do not decode to themselves in this process.
class handle_finder {
 public:
  using result_type = void;
  static constexpr bool reads_state = true, writes_state = false;

  template <class... Field>
  void operator()(Field&&... fields) {
    (look(fields), ...);
  }
  bool has_found_dead() const { return dead_; }
  bool has_found_foreign() const { return foreign_; }  ///< actors of other processes

 private:
  template <class... Signature>
  void look(const caf::typed_actor<Signature...>& x) {
    if (!x)
      return;
    dead_ = dead_ || x->getf(caf::abstract_actor::is_terminated_flag);
    foreign_ = foreign_ || x->node() != x->home_system().node();
  }
  template <class Element>
  void look(const std::vector<Element>& all) {
    for (const auto& x : all)
      look(x);
  }
  template <class Other>
  void look(const Other& x) {
    if constexpr (requires(handle_finder & f, Other & y) { inspect(f, y); })
      inspect(*this, const_cast<Other&>(x));
  }

  bool dead_ = false, foreign_ = false;
};

/// Encodes, decodes and compares a message as CAF does between processes. Also detects a type that
/// is missing in type_ids.hpp. Tickets remain claims. Throws broken_promise (MESSAGE-1) if the
/// decoded message differs.
///
/// Messages with a NaN are compared by their bytes, because NaN is not equal to itself. The handle
/// of a dead actor decodes to none, and a handle of another process only over its connection: such
/// messages are returned unchanged.
template <class Message>
Message through_bytes(caf::actor_system& system, const Message& what) {
  const auto require = [](bool kept) {
    if (!kept)
      throw runtime::broken_promise(
          fmt::format("MESSAGE-1: a decoded message equals the encoded one, but {} does not",
                      caf::type_name<Message>::value));
  };
  const auto encoded = [&](const caf::message& x) {
    std::vector<char> bytes;
    caf::binary_serializer sink{system, bytes};
    require(!x.save(sink));
    return bytes;
  };
  handle_finder before;
  inspect(before, const_cast<Message&>(what));
  const auto bytes = encoded(caf::make_message(what));
  if (before.has_found_foreign())
    return what;
  caf::message decoded;
  caf::binary_deserializer source{system, bytes};
  require(!decoded.load(source) && decoded.match_elements<Message>());
  auto out = decoded.get_as<Message>(0);
  const bool comparable = what == what;
  if (comparable ? out == what : encoded(decoded) == bytes)
    return out;
  handle_finder now;  // an actor may have died since the encoding
  inspect(now, const_cast<Message&>(what));
  require(now.has_found_dead());
  return what;
}

}  // namespace troupe::messages
