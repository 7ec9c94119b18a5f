// Wraps an actor's handlers: reports the current message on the process's lane board.

#pragma once

#include "actors/support/message_path.hpp"
#include "messages/core/type_ids.hpp"
#include "runtime/device/lane_board.hpp"

#include <caf/type_id.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace troupe::actors {

/// Unqualified name of a message type: "run_step".
template <class Message>
constexpr std::string_view name_of_message() {
  const std::string_view whole = caf::type_name<Message>::value;
  const auto colon = whole.rfind(':');
  return colon == std::string_view::npos ? whole : whole.substr(colon + 1);
}

template <class Message>
std::uint64_t step_of_message(const Message& x) {
  if constexpr (requires { value(x.step); })
    return value(x.step);
  else if constexpr (requires { value(x.at.step); })
    return value(x.at.step);
  else if constexpr (requires { x.report.iteration; })
    return x.report.iteration;
  else
    return 0;
}

/// Handles `Message` with `what`, by the message path. Reports no progress without a place, as in
/// simulations and without recovery.
template <class Message, class Self, class What>
auto on_board(Self* self,
              std::shared_ptr<const message_path> path,
              const std::shared_ptr<runtime::lane_board::place>& place,
              What what) {
  return
      [self, path = std::move(path), at = place.get(), what = std::move(what)](const Message& x) {
        if (at == nullptr)
          return path->handle(self, x, what);
        const runtime::lane_board::place::at_message told(
            *at,
            name_of_message<Message>(),
            step_of_message(x),
            std::uint64_t(self->home_system().clock().now().time_since_epoch().count()));
        return path->handle(self, x, what);
      };
}

/// Same, for an actor with a state that receives the message and holds the place.
template <class Message, class Self>
auto receives(Self* self) {
  return on_board<Message>(self, self->state.path(), self->state.place(), [self](const Message& x) {
    return self->state.receive(x);
  });
}

}  // namespace troupe::actors
