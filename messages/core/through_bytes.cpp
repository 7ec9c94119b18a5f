#include "messages/core/through_bytes.hpp"

#include "runtime/core/error.hpp"

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

#include <fmt/format.h>

namespace troupe::messages {

void handle_finder::look(const caf::abstract_actor& x) {
  dead_ = dead_ || x.getf(caf::abstract_actor::is_terminated_flag);
  foreign_ = foreign_ || x.node() != x.home_system().node();
}

caf::message through_bytes(caf::actor_system& system,
                           const caf::message& what,
                           const message_kind& kind) {
  const auto require = [&](bool kept) {
    if (!kept)
      throw runtime::broken_promise(fmt::format(
          "MESSAGE-1: a decoded message equals the encoded one, but {} does not", kind.name));
  };
  const auto encoded = [&](const caf::message& x) {
    std::vector<char> bytes;
    caf::binary_serializer sink{system, bytes};
    require(!x.save(sink));
    return bytes;
  };
  handle_finder before;
  kind.find_handles(before, what.at(0));
  const auto bytes = encoded(what);
  if (before.has_found_foreign())
    return what;
  caf::message decoded;
  caf::binary_deserializer source{system, bytes};
  require(!decoded.load(source) && decoded.size() == 1 && decoded.type(0).second != nullptr
          && *decoded.type(0).second == kind.type);
  const bool comparable = kind.equal(what.at(0), what.at(0));
  if (comparable ? kind.equal(decoded.at(0), what.at(0)) : encoded(decoded) == bytes)
    return decoded;
  handle_finder now;  // an actor may have died since the encoding
  kind.find_handles(now, what.at(0));
  require(now.has_found_dead());
  return what;
}

}  // namespace troupe::messages
