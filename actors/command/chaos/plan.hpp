// Which fault strikes whom at which moment: all of it decided before, by the seed.

#pragma once

#include "actors/command/chaos/faults.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::command::chaos {

struct disturbance {
  std::uint64_t number = 1;  ///< from 1
  std::uint64_t run = 1;     ///< from 1: several strike one run, one after the other
  fault_kind kind = {};
  role who = {};
  /// It comes when this step has been committed, after `delay` of a step's time; or in this step,
  /// where it is planted.
  std::uint64_t step = 0;
  double delay = 0;
  double choice = 0;  ///< in [0, 1): which process of that role
  std::string actor = {}, moment = {};
  std::vector<std::string> plants = {};  ///< as --plant-death takes them; empty: from outside

  bool is_planted() const { return !plants.empty(); }
};

struct plan_wish {
  std::vector<fault_kind> kinds;
  std::vector<role> roles;
  std::vector<std::string> moments;  ///< empty: all
  std::uint64_t count = 1, seed = 1;
  std::uint64_t every = 1;       ///< steps between two
  std::uint64_t first = 0;       ///< iteration that a run starts from
  std::uint64_t last = 0;        ///< iteration that it ends with
  std::uint64_t save_every = 0;  ///< steps; 0: only at the end
  std::uint64_t validate_every = 0;
  bool link_commands = false;
  bool over_hosts = false;                 ///< standing nodes start the processes that compute
  double suspicion = 0, step_seconds = 0;  ///< of the job; 0: whatever lasts is over within a step
};

/// `count` of them. Throws usage_error: no kind strikes any of the roles, or the run has too few
/// steps.
std::vector<disturbance> plan_of(const plan_wish& wish, const runtime::training_job& job);

/// Every kind with every role once, and at every moment, each in a run of its own.
std::vector<disturbance> plan_of_all(const plan_wish& wish, const runtime::training_job& job);

}  // namespace troupe::command::chaos
