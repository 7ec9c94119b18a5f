// A message as the other side of a process boundary would get it.

#pragma once

#include "messages/core/type_ids.hpp"
#include "runtime/core/error.hpp"

#include <caf/actor_system.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/make_message.hpp>
#include <caf/message.hpp>

#include <fmt/format.h>
#include <utility>
#include <vector>

namespace troupe::messages {

/// Encoded, decoded and compared; as CAF does it between processes, so that a type which is not in
/// type_ids.hpp fails, too. Tickets stay claims. Throws broken_promise, MESSAGE-1, when it does not
/// come back equal.
///
/// A message with a NaN in it equals nothing, not even itself: then its bytes are compared.
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
  const auto bytes = encoded(caf::make_message(what));
  caf::message decoded;
  caf::binary_deserializer source{system, bytes};
  require(!decoded.load(source) && decoded.match_elements<Message>());
  auto out = decoded.get_as<Message>(0);
  const bool comparable = what == what;
  require(comparable ? out == what : encoded(decoded) == bytes);
  return out;
}

}  // namespace troupe::messages
