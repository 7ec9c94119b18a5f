// What each lane and actor of a process is at, for those who look for one that hangs.
//
// A lane that shows no progress either computes, or waits for another (core/waiting.hpp). An actor
// handles a message, or waits for the next. Who waits is not the cause: at the root of what is late
// stands one that does not wait (wait_graph.hpp). Who is on the board pays for two locks, that
// nobody else holds, at each piece of work; what it waits for is put into words by who looks.

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

/// Any thread.
class lane_board {
 public:
  class place;

  /// What is known of a lane or an actor from the beginning.
  struct member {
    std::string who = {};          ///< "lane:0.1"
    std::uint64_t generation = 0;  ///< it belongs to
    bool service = false;          ///< of all generations of an epoch
    double patience = 1;           ///< as a board_entry has it
    std::uint64_t actor = 0;       ///< its number in the actor system; 0: of no interest
    /// While it handles a message it holds a thread that other actors need, too.
    bool shares_thread = false;
    // Of a lane: the actor that gives it work, and other lanes of the same rank.
    std::string owner = {}, communication_lane = {}, saver = {};
  };

  /// Of one lane or actor, until the place dies.
  std::shared_ptr<place> add(member who);
  /// Of each, what it is at now. Actors that are between two messages are asked for whom they wait.
  std::vector<board_entry> all() const;
  /// This one was left behind: from now on nobody sees what it does.
  void leave_behind(std::uint64_t number);
  /// The same of all of this generation and older ones, with services or without.
  void leave_behind_until(std::uint64_t generation, bool services);
  /// Those that were left behind and still have their place.
  std::size_t left_behind() const;
  /// Threads, shared by actors, that those hold who were left behind in a message.
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

  /// Around one piece of work of a lane, on its thread. `patience` as a board_entry has it.
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

  /// Around one message that an actor handles, on whichever thread runs it; `step` 0: that of the
  /// message before. Nothing of the actor is asked meanwhile. What it waits for counts from its end
  /// on.
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

  /// What an actor waits for between two messages: asked by who looks, on that thread, while the
  /// actor handles none. It reads what the actor knows, calls nobody and takes no lock.
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
