// Counts the messages of simulated actors, and their bytes between processes.

#pragma once

#include "actors/simulation/virtual_process.hpp"
#include "actors/simulation/world.hpp"

#include <caf/mailbox_element.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

namespace troupe::actors::simulation {

struct message_count {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  ///< between processes, as CAF writes them
};

/// All actors of one kind, such as "stage".
struct kind_counts {
  std::string kind;
  std::uint64_t actors = 0;  ///< that handled or sent a message
  message_count handled = {}, sent = {};
  message_count most_handled = {}, most_sent = {};  ///< of one actor
};

/// One kind of message to one kind of actor.
struct type_counts {
  std::string to, message;
  message_count all = {};
};

struct counted_messages {
  std::vector<kind_counts> kinds = {};  ///< by name
  std::vector<type_counts> types = {};
  message_count all = {};
  /// Numbers of processes with messages from the first to the second.
  std::set<std::pair<int, int>> pairs = {};

  /// Zeros if there is none.
  kind_counts of(const std::string& kind) const;
  message_count of(const std::string& to, const std::string& message) const;
};

/// A lane's reports to its actor have no sender, and no bytes.
class message_counter {
 public:
  message_counter(world& in, const virtual_network& of) : world_(in), network_(of) {}

  /// An actor handles this message. Ignores actors of dead processes.
  void note(caf::actor_id to, const caf::mailbox_element& x);
  /// Begins anew.
  void forget();
  counted_messages counted() const;

 private:
  struct row {
    int kind = -1;  ///< index in kinds_; -1: not known yet
    message_count handled = {}, sent = {};
  };
  using type_key = std::tuple<int, std::uint16_t, const std::type_info*>;
  row& at(caf::actor_id x);
  std::uint64_t bytes_of(const caf::mailbox_element& x) const;

  world& world_;
  const virtual_network& network_;
  std::vector<std::string> kinds_;
  std::vector<row> rows_;  ///< by actor
  std::map<type_key, message_count> types_;
  std::set<std::pair<int, int>> pairs_;
};

}  // namespace troupe::actors::simulation
