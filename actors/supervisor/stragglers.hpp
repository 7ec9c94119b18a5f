// Finds slow workers and the reason: a state machine without actors and clock.
//
//   where each worker's time went in a step -> news about slow workers
//
// A worker is compared with those of the same stage in other replicas, in this step and the last
// few; without others, with its own last steps. Its waits (links, batches) are also compared with
// its compute time: when all wait alike, all are named. A run of one worker names none: alone, a
// slow worker looks like a busy machine.
//
// With many replicas only the slowest workers of a stage are known, and how many others took how
// long (actors/host/merged_times.hpp). Then all workers of the stage define what is usual. A worker
// that is not listed keeps its number of slow steps only while an unlisted time may be slow.
//
// Step times vary where machines are shared. A slow time must exceed the usual one by more than its
// own variation. A worker is named after three slow steps in a row, and after more if slow steps
// come and go by chance. Chance alone names one worker of the run in a hundred thousand steps.
//
//   STRAGGLER-1  A worker that is slow in three consecutive steps is named then, once, until that
//                changes. If slow steps come and go by chance, it takes more consecutive ones, as
//                many as chance does not explain. A worker without others of its stage is named
//                only if these steps also take 10 s together.

#pragma once

#include "messages/training/step.hpp"

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
  link,   ///< waits long for data from other ranks
  input,  ///< waits for its batches
};
std::string to_string(slowness x);  ///< for none: "over"

/// Times of one worker in seconds per step, without the time in which it had no core.
struct worker_times {
  int replica = 0;
  int stage = 0;
  double computing = 0, redeeming = 0, awaiting_batches = 0;
};

/// The workers of a stage that are not listed.
struct other_workers {
  using numbers = std::vector<std::pair<double, int>>;  ///< (seconds, workers)

  int stage = 0;
  /// Ascending; of computing, redeeming and awaiting batches. Each has all of them.
  std::array<numbers, 3> times = {};
};

std::vector<worker_times> listed_workers(const messages::vote& all);
std::vector<other_workers> unlisted_workers(const messages::vote& all);

struct straggler_rule {
  double ratio = 1.5;        ///< slow: above usual times this; 0: disabled
  double least = 0.05;       ///< and at least this many seconds more; shared cores cause less
  double share = 0.1;        ///< and more than this share of the worker's compute time
  double spread = 3;         ///< and more than this many median deviations
  int in_a_row = 3;          ///< consecutive steps
  double alone = 10;         ///< seconds of slow steps of a worker without others of its stage
  double by_chance = 1e-5;   ///< chance per step of naming a worker that is not slow
  double memory = 1000;      ///< approximate number of steps that estimate the rate of chance
  std::size_t recent = 8;    ///< steps of others that define usual
  std::size_t history = 16;  ///< own steps that define usual, without others
  std::size_t known = 4;     ///< own steps before the comparison starts
};

struct straggler_news {
  int replica = 0;
  int stage = 0;
  slowness is = {};
  double seconds = 0, usual = 0;  ///< of the slow part

  friend bool operator==(const straggler_news&, const straggler_news&) = default;
};

class stragglers {
 public:
  explicit stragglers(straggler_rule rule) : rule_(rule) {}

  /// Takes the times of all workers in a completed step. `work`: amount of work in the step, in any
  /// unit; times are compared per unit.
  std::vector<straggler_news> compare(const std::vector<worker_times>& step,
                                      double work,
                                      const std::vector<other_workers>& others = {});

  /// Consecutive slow steps that name a worker at present.
  int needed(slowness cause) const;

 private:
  static constexpr std::size_t causes = 3;
  using times = std::array<double, causes>;  ///< compute, link, input
  using place = std::pair<int, int>;         ///< (stage, replica)
  using numbers = other_workers::numbers;

  struct known_worker {
    std::deque<times> past;  ///< per unit of work, newest last; without slow steps
    std::array<int, causes> slow = {};
    std::array<double, causes> slow_seconds = {};  ///< time of these steps
    std::array<bool, causes> named = {};           ///< the current row of slow steps was reported
    int fine = 0;                                  ///< consecutive steps
    slowness told = slowness::none;
  };

  /// Slow steps that ended before a worker was named, out of all; newer steps weigh more.
  struct chance {
    double slow = 0, all = 0;
  };

  struct reference {
    double usual = -1;  ///< negative: unknown
    double spread = 0;  ///< median deviation from it
  };
  /// A stage with workers that are not listed. Times are per unit of work.
  struct crowd {
    std::array<numbers, causes> now = {};               ///< of those that are not listed
    std::deque<std::array<numbers, causes>> past = {};  ///< of all that were not slow
    std::array<reference, causes> usual = {};
    std::array<bool, causes> hides = {};  ///< an unlisted time may be slow
  };

  void take_others(const std::vector<other_workers>& others,
                   const std::map<place, times>& now,
                   double work);
  void remember_others(const std::map<place, times>& now);
  /// Judges the known workers that are not listed.
  void judge_unlisted(const std::map<place, times>& now, std::vector<straggler_news>& to);
  void end_row(known_worker& x, std::size_t cause);
  static reference at_most_half(reference x, std::size_t cause, const times& mine);
  reference usual(const place& of, std::size_t cause, const std::map<place, times>& now) const;
  straggler_news judge(const place& of, const std::map<place, times>& now, double work);
  bool is_slow(const times& mine, std::size_t cause, const reference& beside, double work) const;
  void count(known_worker& x, std::size_t cause, bool is_slow, double seconds);
  bool is_to_be_named(const known_worker& x, std::size_t cause, bool has_others) const;

  straggler_rule rule_;
  std::map<place, known_worker> workers_;
  std::map<int, crowd> crowds_;  ///< by stage
  std::size_t all_workers_ = 0;  ///< in the newest step
  std::array<chance, causes> chances_;
};

}  // namespace troupe::actors
