// Who is slow, and why: a pure machine.
//
//   where the time of each worker went in a step -> what is new about who is slow
//
// It knows no actor and no clock. A worker is compared with those of the same stage in other
// replicas, in this step and in the last few; without others with its own last steps. What it
// waits for (links, batches) also with what it computes: where all wait alike, all are named.
//
// Steps are unquiet where machines are. What is slow differs from what is usual by more than that
// itself does, and who is named has been slow so often in a row as chance would have it of one
// worker of the run in a hundred thousand steps: three times, and more often only where slow steps
// come and go by themselves.
//
//   STRAGGLER-1  Who is slow for three steps in a row is named then; once, until it changes. Where
//                slow steps come and go, it takes more steps, as many as chance does not.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

enum class slowness : std::uint8_t {
  none,
  compute,
  link,   ///< it takes long to get what other ranks have handed on
  input,  ///< it waits for its batches
};
std::string to_string(slowness x);  ///< of none: "over"

/// Of one worker, in seconds of a step, without those in which it had no core.
struct worker_times {
  int replica = 0;
  int stage = 0;
  double computing = 0, redeeming = 0, awaiting_batches = 0;
};

struct straggler_rule {
  double ratio = 1.5;        ///< so many times as long as usual is slow; 0: nothing is
  double least = 0.05;       ///< seconds more than usual: less comes of who else uses a core
  double share = 0.1;        ///< and more than this share of what the worker computes
  double spread = 3;         ///< and so many times as far from usual as half of all times are
  int in_a_row = 3;          ///< steps
  double by_chance = 1e-5;   ///< so often in a step somebody may be named who is not slow
  double memory = 1000;      ///< steps that say how often slow steps come by themselves, about
  std::size_t recent = 8;    ///< steps of others that say what is usual
  std::size_t history = 16;  ///< of its own, where there are no others
  std::size_t known = 4;     ///< steps of its own before it is compared with them
};

struct straggler_news {
  int replica = 0;
  int stage = 0;
  slowness is = {};
  double seconds = 0, usual = 0;  ///< of what it is slow at

  friend bool operator==(const straggler_news&, const straggler_news&) = default;
};

class stragglers {
 public:
  explicit stragglers(straggler_rule rule) : rule_(rule) {}

  /// Of all workers of a step that was computed to its end. `work`: how much the step had, in any
  /// unit; times are compared for as much.
  std::vector<straggler_news> compare(const std::vector<worker_times>& step, double work);

  /// So many slow steps in a row name a worker, now.
  int needed(slowness cause) const;

 private:
  static constexpr std::size_t causes = 3;
  using times = std::array<double, causes>;  ///< compute, link, input
  using place = std::pair<int, int>;         ///< stage and replica

  struct known_worker {
    std::deque<times>
        past;  ///< for a unit of work, the newest last; of steps in which it was not slow
    std::array<int, causes> slow = {};
    std::array<bool, causes> named = {};  ///< that row of slow steps was
    int fine = 0;                         ///< steps in a row
    slowness told = slowness::none;
  };

  /// Slow steps that ended before they named anybody, of so many: newer ones count more.
  struct chance {
    double slow = 0, all = 0;
  };

  struct reference {
    double usual = -1;  ///< negative: nobody knows
    double spread = 0;  ///< half of all times are as near to it
  };
  reference usual(const place& of, std::size_t cause, const std::map<place, times>& now) const;
  straggler_news judge(const place& of, const std::map<place, times>& now, double work);
  bool is_slow(const times& mine, std::size_t cause, const reference& beside, double work) const;
  void count(known_worker& x, std::size_t cause, bool is_slow);

  straggler_rule rule_;
  std::map<place, known_worker> workers_;
  std::array<chance, causes> chances_;
};

}  // namespace troupe::actors
