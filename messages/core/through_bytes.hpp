// Sends a message through its bytes, as if it crossed a process boundary.

#pragma once

#include "messages/core/type_ids.hpp"

#include <caf/abstract_actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/fwd.hpp>
#include <caf/make_message.hpp>
#include <caf/message.hpp>

#include <typeinfo>
#include <utility>
#include <vector>

namespace troupe::messages {

/// Looks in messages for handles that do not decode to themselves in this process.
class handle_finder {
 public:
  template <runtime::aggregate Message>
  void look(const Message& x) {
    runtime::with_members(x, [this](const auto&... members) { (this->look(members), ...); });
  }
  bool has_found_dead() const { return dead_; }
  bool has_found_foreign() const { return foreign_; }  ///< actors of other processes

 private:
  template <class... Signature>
  void look(const caf::typed_actor<Signature...>& x) {
    if (x)
      look(*caf::actor_cast<caf::abstract_actor*>(x));
  }
  void look(const caf::abstract_actor& x);
  template <class Element>
  void look(const std::vector<Element>& all) {
    for (const auto& x : all)
      look(x);
  }
  template <class Other>
  void look(const Other&) {}

  bool dead_ = false, foreign_ = false;
};

/// Operations on one message type, for code that handles messages of any type.
struct message_kind {
  const std::type_info& type;
  const char* name;
  bool (*equal)(const void*, const void*);
  void (*find_handles)(handle_finder&, const void*);
};

/// Compiled once for each message of TROUPE_MESSAGES (handles.hpp), in instances.cpp.
template <class Message>
const message_kind& kind_of() {
  static const message_kind kind{
      typeid(Message),
      caf::type_name<Message>::value,
      [](const void* a, const void* b) {
        return *static_cast<const Message*>(a) == *static_cast<const Message*>(b);
      },
      [](handle_finder& finder, const void* x) { finder.look(*static_cast<const Message*>(x)); }};
  return kind;
}
#ifndef TROUPE_INSTANCES
#define TROUPE_DECLARE_KIND(name) extern template const message_kind& kind_of<name>();
TROUPE_MESSAGES(TROUPE_DECLARE_KIND)
#undef TROUPE_DECLARE_KIND
#endif

/// Encodes, decodes and compares a message of this kind as CAF does between processes. Tickets
/// remain claims. Throws broken_promise (MESSAGE-1) if the decoded message differs.
///
/// Messages with a NaN are compared by their bytes, because NaN is not equal to itself. The handle
/// of a dead actor decodes to none, and a handle of another process only over its connection: such
/// messages are returned unchanged.
caf::message through_bytes(caf::actor_system& system,
                           const caf::message& what,
                           const message_kind& kind);

template <class Message>
Message through_bytes(caf::actor_system& system, const Message& what) {
  return through_bytes(system, caf::make_message(what), kind_of<Message>())
      .template get_as<Message>(0);
}

}  // namespace troupe::messages
