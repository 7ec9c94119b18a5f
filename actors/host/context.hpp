// The context of a process: the resources and state that its node lends to the actors it hosts. It
// never travels; an actor gets the description of its job in the message that spawns it.
//
// Each base is a part. An actor is given the part that it uses, and includes only that header.

#pragma once

#include "actors/host/holdings.hpp"
#include "actors/host/loader_resources.hpp"
#include "actors/host/monitor_resources.hpp"
#include "actors/host/saver_resources.hpp"
#include "actors/host/supervisor_resources.hpp"
#include "actors/host/viewer.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace troupe::actors {

class fault_injector;

/// Filled before the node is spawned; then immutable or thread-safe. Exception: the monitors use
/// the log book one after the other.
struct node_context : virtual loader_resources,
                      virtual monitor_resources,
                      virtual saver_resources,
                      virtual supervisor_resources {
  std::map<std::string, make_viewer> viewers = {};  ///< by name
  std::shared_ptr<viewer_registry> watching = std::make_shared<viewer_registry>();
  std::shared_ptr<newest_holdings> held = std::make_shared<newest_holdings>();
  /// Asks the current supervisor for an early end.
  drain_request drain = {};
  /// Called after every worker is filled: closes the files that `restore` reads. A mapped
  /// checkpoint occupies disk space even after it is removed.
  std::function<void()> restored = {};
  /// Faults injected into these members; null in a real run.
  std::shared_ptr<const fault_injector> faults = {};

  /// Discards the state of the previous run before a new one begins.
  void forget() {
    ledger = std::make_shared<runtime::step_ledger>();
    estates = std::make_shared<estate_registry>();
    kept = std::make_shared<runtime::kept_states>();
    living = std::make_shared<living_registry>();
    watching = std::make_shared<viewer_registry>();
    lanes = std::make_shared<runtime::lane_board>();
    reaper = std::make_shared<runtime::lane_reaper>();
    held = std::make_shared<newest_holdings>();
    book.reset();
  }
};

}  // namespace troupe::actors
