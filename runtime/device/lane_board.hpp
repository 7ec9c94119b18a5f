// What each lane of a process is at, for those who look for one that hangs.
//
// A lane that shows no progress either computes, or waits for another (core/waiting.hpp). Who waits
// is not the cause: at the root of what is late stands a lane that does not wait.

#pragma once

#include "runtime/core/waiting.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe::runtime {

struct lane_state {
  std::string who;   ///< "lane:0.1"
  std::string work;  ///< "1F0"; empty: it has nothing to do
  std::uint64_t step = 0;
  std::uint64_t since_ns = 0;  ///< when the work began, by now_ns()
  bool waits = false;          ///< in this work, for somebody else
};

/// Any thread.
class lane_board {
 public:
  class place;

  /// Of one lane, until it dies.
  std::shared_ptr<place> add(std::string who);
  std::vector<lane_state> all() const;
  /// Of those that are at work, a line each: who, in which step, at what, for how long, and whether
  /// it computes or waits.
  std::string text(std::uint64_t now_ns) const;

 private:
  struct state;
  std::shared_ptr<state> state_ = make_state();
  static std::shared_ptr<state> make_state();
};

class lane_board::place {
 public:
  place(std::shared_ptr<state> of, std::uint64_t number) : of_(std::move(of)), number_(number) {}
  ~place();
  place(const place&) = delete;
  place& operator=(const place&) = delete;

  /// Around one piece of work, on the lane's thread.
  class at_work {
   public:
    at_work(place& of, const std::string& work, std::uint64_t step, std::uint64_t now_ns);
    ~at_work();
    at_work(const at_work&) = delete;
    at_work& operator=(const at_work&) = delete;

   private:
    place& of_;
    wait_flag* before_;
  };

  lane_state now() const;

 private:
  friend class lane_board;
  std::shared_ptr<state> of_;
  std::uint64_t number_;
};

}  // namespace troupe::runtime
