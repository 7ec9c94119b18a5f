#include "actors/simulation/message_counts.hpp"

#include "runtime/core/error.hpp"

#include <caf/detail/serialized_size.hpp>
#include <caf/message.hpp>
#include <caf/uniform_type_info_map.hpp>

#include <algorithm>

namespace troupe::actors::simulation {
namespace {

void add(message_count& to, const message_count& x) {
  to.messages += x.messages;
  to.bytes += x.bytes;
}

void raise(message_count& to, const message_count& x) {
  to.messages = std::max(to.messages, x.messages);
  to.bytes = std::max(to.bytes, x.bytes);
}

}  // namespace

kind_counts counted_messages::of(const std::string& kind) const {
  const auto found = std::ranges::find(kinds, kind, &kind_counts::kind);
  return found == kinds.end() ? kind_counts{kind} : *found;
}

message_count counted_messages::of(const std::string& to, const std::string& message) const {
  message_count out;
  for (const auto& x : types)
    if (x.to == to && x.message == message)
      add(out, x.all);
  return out;
}

message_counter::row& message_counter::at(caf::actor_id x) {
  if (x >= rows_.size())
    rows_.resize(std::max<std::size_t>(x + 1, rows_.size() * 2));
  auto& out = rows_[x];
  if (out.kind < 0)
    if (const auto kind = world_.kind_of(x); !kind.empty()) {
      const auto found = std::ranges::find(kinds_, kind);
      out.kind = int(found - kinds_.begin());
      if (found == kinds_.end())
        kinds_.push_back(kind);
    }
  return out;
}

std::uint64_t message_counter::bytes_of(const caf::mailbox_element& x) const {
  caf::detail::serialized_size_inspector sink{world_.system()};
  if (caf::message::save(sink, x.content()))
    throw runtime::broken_promise("a message between processes cannot be written as bytes: "
                                  + caf::to_string(x.content()));
  return sink.result();
}

void message_counter::note(caf::actor_id to, const caf::mailbox_element& x) {
  const auto* const home = network_.process_of(to);
  if (home != nullptr && home->is_dead())
    return;
  const auto from = x.sender ? x.sender->id() : caf::actor_id{0};
  const auto* const other = from == 0 ? nullptr : network_.process_of(from);
  message_count one{1, 0};
  if (home != nullptr && other != nullptr && home != other) {
    one.bytes = bytes_of(x);
    pairs_.emplace(other->number(), home->number());
  }
  auto& receiver = at(to);
  add(receiver.handled, one);
  if (!x.content().empty()) {
    const auto [number, type] = x.content().type(0);
    add(types_[{receiver.kind, number, type}], one);
  }
  if (from != 0)
    add(at(from).sent, one);
}

void message_counter::forget() {
  for (auto& x : rows_)
    x.handled = x.sent = {};
  types_.clear();
  pairs_.clear();
}

counted_messages message_counter::counted() const {
  std::map<std::string, kind_counts> kinds;
  counted_messages out{.pairs = pairs_};
  for (const auto& x : rows_) {
    if (x.kind < 0 || x.handled.messages + x.sent.messages == 0)
      continue;
    const auto& name = kinds_[std::size_t(x.kind)];
    auto& to = kinds.try_emplace(name, kind_counts{name}).first->second;
    ++to.actors;
    add(to.handled, x.handled);
    add(to.sent, x.sent);
    raise(to.most_handled, x.handled);
    raise(to.most_sent, x.sent);
    add(out.all, x.handled);
  }
  for (auto& [name, x] : kinds)
    out.kinds.push_back(std::move(x));
  for (const auto& [key, x] : types_) {
    const auto& [kind, number, type] = key;
    const auto& whole = world_.system().types().portable_name(number, type);
    out.types.push_back(
        {kind < 0 ? "" : kinds_[std::size_t(kind)], whole.substr(whole.find_last_of(':') + 1), x});
  }
  return out;
}

}  // namespace troupe::actors::simulation
