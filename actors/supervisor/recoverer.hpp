// Handles deaths, lost processes, broken connections and stalled runs, and carries out the orders
// of the membership (membership.hpp).

#pragma once

#include "actors/host/neighbours.hpp"
#include "actors/supervisor/stored_steps.hpp"
#include "actors/supervisor/supervised_run.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::actors {

class recoverer : supervisor_part {
 public:
  explicit recoverer(supervisor_parts& all) : supervisor_part(all) {}

  void begin(const succession& after);
  void receive(const messages::ready& x);
  void receive(const messages::process_started& x);
  void receive(const messages::process_died& x);
  void receive(const messages::process_may_move& x);
  void receive(const messages::taken_for_dead& x);  // waiting.cpp
  void lose(const caf::down_msg& x);
  void lose_process(int process,
                    std::uint32_t incarnation,
                    const std::string& why,
                    process_loss how = process_loss::died);
  /// `from` cannot be connected with `to`; both may live.
  void cannot_connect(int from, const messages::process_name& to, const std::string& why);
  /// The connection with the process, or with its connector, is gone.
  void lose_node(int process, const caf::error& reason);
  /// Ranks broke a promise: values that must be alike differ. Their step runs again.
  void suspect(const std::string& why);
  /// Runs the voted step again, without a broken promise.
  void run_again(const std::string& why);
  void refuse(const caf::error& reason);
  void begin_when_ready();
  /// Moves a process to a free host; returns whether one moved.
  bool move_process();

 private:
  void carry_out(membership::orders orders);
  void carry_out(const order_start& x);
  void carry_out(const order_end& x);
  void carry_out(const order_look& x);
  void carry_out(const order_form& x);
  void carry_out(const order_replace& x);
  void carry_out(const order_forgo& x);
  void carry_out(const order_exchange& x);
  void carry_out(const order_stop& x);
  /// Position of a step that the run may go back to. The ledger may no longer know steps that run
  /// again.
  std::optional<runtime::training_position> position(std::uint64_t step) const;
  void end_look();
  void end_services_before();
  bool lose_known(const caf::down_msg& x);
  /// Time for which a report of a death waits for its cause from the process's host, when the run
  /// ends by it.
  std::chrono::milliseconds patience_with_causes() const;
  /// The first process reports that it cannot reach the second; both may live.
  void lose_connection(const messages::taken_for_dead& x,
                       int from,
                       const messages::process_name& to,
                       const char* kind);
  void note_loss(const member_death& death);
  void tell_restart();

  // Stalled runs (stillness.cpp).

  void hear_of_stillness(const messages::taken_for_dead& x);
  /// All processes, this one included, have reported it within the suspicion.
  bool is_still(std::uint64_t now_ns) const;
  void end_stillness();
  /// Processes that lost an order, or sent an answer that was lost.
  std::vector<int> unanswering() const;

  caf::actor_addr node_address_;
  std::set<caf::actor_addr>
      awaits_cause_;  ///< deaths that wait for the cause from a process's host
  std::optional<messages::process_died>
      unreachable_;  ///< the first one, while its cause is awaited
  struct {
    order_look order = {};
    found_on_disks found = {};
  } look_;
  int ready_ = 0;  ///< replicas that stand
  struct {
    member_death cause = {};
    std::uint64_t began_ns = 0;  ///< when it was noticed; 0: no death
    /// Times at which the last process had ended its generation and the last one had started.
    std::uint64_t released_ns = 0, stands_ns = 0;
    double transfer = 0;  ///< seconds of the slowest replica
  } loss_;
  std::optional<messages::process_may_move> may_move_;
  struct {
    std::string waits_for;       ///< wait of this supervisor at the first report
    std::uint64_t since_ns = 0;  ///< time of that report
    struct report {
      std::uint64_t at_ns = 0;
      std::string graph;
    };
    std::map<int, report> of = {};  ///< the newest, by process
  } still_;
};

}  // namespace troupe::actors
