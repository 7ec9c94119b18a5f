// A board of the current activity of each lane and actor of a process, for the search for hangs.
//
// A lane without progress either computes or waits (core/waiting.hpp). An actor handles a message
// or waits for the next one. A waiting member is not the cause of a hang: the root of the wait
// graph is a member that does not wait (wait_graph.hpp). A member takes two uncontended locks for
// each piece of work. The observer formats the descriptions of the waits.

#pragma once

#include "runtime/core/waiting.hpp"
#include "runtime/device/wait_graph.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// All functions may be called from any thread.
class lane_board {
 public:
  class place;

  /// Fixed properties of a lane or an actor.
  struct member {
    std::string who = {};  ///< "lane:0.1"
    std::uint64_t generation = 0;
    bool service = false;     ///< shared by all generations of an epoch
    double patience = 1;      ///< see board_entry
    std::uint64_t actor = 0;  ///< its id in the actor system; 0: not relevant
    /// It holds a thread of the shared actor pool while it handles a message.
    bool shares_thread = false;
    // Lanes only: the actor that submits its work, and the other lanes of the same rank.
    std::string owner = {}, communication_lane = {}, saver = {};
  };

  /// Adds a lane or an actor. It stays on the board until the place is destroyed.
  std::shared_ptr<place> add(member who);
  /// Current state of each member. Actors between two messages are asked what they wait for.
  std::vector<board_entry> all() const;
  /// Marks a member as left behind: `all` leaves it out from now on.
  void leave_behind(std::uint64_t number);
  /// Marks all members of this and older generations as left behind, with or without services.
  void leave_behind_until(std::uint64_t generation, bool services);
  /// Number of left-behind members that still have a place.
  std::size_t left_behind() const;
  /// Number of shared threads that left-behind actors hold inside a message.
  std::size_t threads_lost() const;

 private:
  struct row;
  struct state;
  std::shared_ptr<state> state_ = make_state();
  static std::shared_ptr<state> make_state();
};

class lane_board::place {
 public:
  place(std::shared_ptr<state> of, std::shared_ptr<row> mine, std::uint64_t number)
      : of_(std::move(of)), row_(std::move(mine)), number_(number) {}
  ~place();
  place(const place&) = delete;
  place& operator=(const place&) = delete;

  std::uint64_t number() const { return number_; }

  /// Scope of one piece of work of a lane, on its thread. `patience`: see board_entry.
  class at_work {
   public:
    at_work(place& of,
            std::string_view work,
            std::uint64_t step,
            std::uint64_t now_ns,
            double patience = 1);
    ~at_work();
    at_work(const at_work&) = delete;
    at_work& operator=(const at_work&) = delete;

   private:
    row& row_;
    watched_thread* before_;
  };

  /// Scope of one message that an actor handles, on any thread. With `step` 0 the step of the
  /// previous message stays. `describe_by` is not called meanwhile. The actor's next wait starts at
  /// the end of the scope.
  class at_message {
   public:
    at_message(place& of, std::string_view message, std::uint64_t step, std::uint64_t now_ns);
    ~at_message();
    at_message(const at_message&) = delete;
    at_message& operator=(const at_message&) = delete;

   private:
    std::unique_lock<std::mutex> turn_;
    row& row_;
    watched_thread* before_;
  };

  /// A wait of an actor between two messages. `tell` runs on the observer's thread while the
  /// actor handles no message. It reads the actor's state; it must not send messages or take locks.
  struct waiting {
    std::uint64_t step = 0;
    wait_report what = {};
  };
  void describe_by(std::function<waiting()> tell);

 private:
  std::shared_ptr<state> of_;
  std::shared_ptr<row> row_;
  std::uint64_t number_;
};

}  // namespace troupe::runtime
