// A message as the other side of a process boundary would get it.

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

/// Looks for handles that are not decoded in this process as they are.
class handle_finder {
 public:
  using result_type = void;
  static constexpr bool reads_state = true, writes_state = false;

  template <class... Field>
  void operator()(Field&&... fields) {
    (look(fields), ...);
  }
  bool has_found_dead() const { return dead_; }
  bool has_found_foreign() const { return foreign_; }  ///< of actors of other processes

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

/// Encodes, decodes and compares a message as CAF does between processes: a type that is not in
/// type_ids.hpp fails too. Tickets stay claims. Throws broken_promise, MESSAGE-1, when it does not
/// come back equal.
///
/// A message with a NaN in it equals nothing, not even itself: then its bytes are compared. The
/// handle of an actor that has ended is decoded as none, and that of another process's by its
/// connection alone: such a message comes back as it was.
template <class Message>
Message through_bytes(caf::actor_system& system, const Message& what) {
  const auto require = [](bool kept) {
    if (!kept)
      throw runtime::broken_promise(
          fmt::format("MESSAGE-1: a message comes out of bytes as it went in; but not {}",
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
  handle_finder now;  // one may have died since the bytes were made
  inspect(now, const_cast<Message&>(what));
  require(now.has_found_dead());
  return what;
}

}  // namespace troupe::messages
